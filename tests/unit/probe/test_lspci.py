"""lspci in all the forms in which people run it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.probe.lspci_text import read_head
from rigops.probe.sections import lspci
from tests.unit import programs
from tests.unit.probe.snippets import called
from tests.unit.programs import SHELLS

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures/lspci"
ROOT_PORTS = (FIXTURES / "root-ports.txt").read_text()
RISERS = (FIXTURES / "risers.txt").read_text()


def test_a_card_in_full() -> None:
    found = lspci.parse(ROOT_PORTS)
    card = found.nvidia_gpus[0]

    assert [one.address for one in found.nvidia_gpus] == ["0000:41:00.0", "0000:61:00.0"]
    assert (card.vendor, card.device, card.pci_class) == (
        0x10DE,
        0x26B3,
        0x0300,
    )
    assert card.name == "NVIDIA Corporation AD102GL [RTX 5880 Ada Generation]"
    assert card.product == "RTX 5880 Ada Generation"
    assert card.driver == "nvidia"
    assert card.modules == ("nvidiafb", "nouveau", "nvidia_drm", "nvidia")
    assert card.link_status is not None
    assert card.link_status.width == 16
    assert card.link_status.line.startswith("LnkSta:")
    assert card.link_capability is not None
    assert card.link_capability.width == 16
    assert card.bar1 is not None
    assert card.bar1.size_bytes == 64 << 30
    assert card.resizable_bar_sizes[0] == "64MB"
    assert card.resizable_bar_sizes[-1] == "64GB"
    assert card.acs is None
    assert card.lists_all
    assert not card.is_gone
    assert not found.unparsed


def test_a_port() -> None:
    port = lspci.parse(ROOT_PORTS).by_address.get("0000:40:01.1")

    assert port is not None
    assert port.is_bridge
    assert (port.port_type, port.secondary_bus) == ("Root Port", 0x41)
    assert port.acs is not None
    assert port.acs.enabled == {"SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"}
    assert port.acs.is_complete


def test_cards_that_dropped_off_hide_or_have_no_room() -> None:
    found = lspci.parse(RISERS)
    there, _, hidden = found.nvidia_gpus

    assert [one.address for one in found.functions] == [
        "0000:03:00.0",
        "0000:0f:00.0",
        "0000:12:00.0",
    ]
    assert [one.is_gone for one in found.functions] == [False, True, False]
    assert there.link_status is not None
    assert there.link_status.width == 1
    assert [(one.index, one.size_bytes) for one in there.regions][:2] == [
        (0, 16 << 20),
        (1, 256 << 20),
    ]
    assert hidden.unreadable
    assert hidden.bar1 is not None
    assert hidden.bar1.size_bytes is None
    assert not found.unparsed


# The layouts of an H100 (`-vvv`) and of an H20 (`-v`), whose registers take two regions, with the
# functions of SR-IOV below.
NUMBERED = """\
3b:00.0 3D controller: NVIDIA Corporation GH100 [H100 PCIe] (rev a1)
        Region 0: Memory at 88042000000 (64-bit, prefetchable) [size=16M]
        Region 2: Memory at 84000000000 (64-bit, prefetchable) [size=128G]
        Region 4: Memory at 88040000000 (64-bit, prefetchable) [size=32M]
        Capabilities: [134 v1] Physical Resizable BAR
                BAR 2: current size: 128GB, supported: 64MB 128MB 256MB 128GB
        Capabilities: [250 v1] Single Root I/O Virtualization (SR-IOV)
                Region 1: Memory at 0000000000000000 (64-bit, prefetchable)
"""
BARE = """\
0a:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2329] (rev a1)
        Memory at 18002000000 (64-bit, prefetchable) [size=16M]
        Memory at 16000000000 (64-bit, prefetchable) [size=128G]
        Memory at 18000000000 (64-bit, prefetchable) [size=32M]
        Capabilities: [40] Power Management version 3
"""


@pytest.mark.parametrize("listing", [NUMBERED, BARE])
def test_the_window_is_behind_the_registers_which_may_take_two_regions(listing: str) -> None:
    (card,) = lspci.parse(listing).nvidia_gpus

    assert card.bar1 is not None
    assert (card.bar1.index, card.bar1.size_bytes) == (2, 128 << 30)
    assert card.resizable_bar_sizes == (("64MB", "128MB", "256MB", "128GB") * (listing == NUMBERED))


@pytest.mark.parametrize(
    ("line", "address", "vendor", "pci_class"),
    [
        (
            "01:00.0 VGA compatible controller: NVIDIA Corporation AD102 [RTX 4090] (rev a1)",
            "0000:01:00.0",
            0x10DE,
            0x0300,
        ),
        (
            "10000:e1:00.0 3D controller [0302]: NVIDIA Corporation GA100 [10de:20b2] (rev a1)",
            "10000:e1:00.0",
            0x10DE,
            0x0302,
        ),
        ("00:02.0 0604: 1022:14ba (rev 01)", "0000:00:02.0", 0x1022, 0x0604),
        ("00:02.0 Class 0604: 1022:14ba", "0000:00:02.0", 0x1022, 0x0604),
        ("05:00.0 Unassigned class [ff80]: XenSource, Inc. Device", "0000:05:00.0", 0x5853, 0xFF80),
        ("02:00.0 PCI bridge: PLX Technology, Inc. PEX 8747", "0000:02:00.0", None, 0x0604),
        ("    02:00.0 PCI bridge: PLX Technology, Inc. PEX 8747", "0000:02:00.0", None, 0x0604),
    ],
)
def test_heads(line: str, address: str, vendor: int | None, pci_class: int) -> None:
    head = read_head(line)

    assert head is not None
    assert (head.address, head.vendor, head.pci_class) == (address, vendor, pci_class)


def test_only_what_is_plainly_nvidia_is_taken_for_it() -> None:
    found = lspci.parse("01:00.0 VGA compatible controller: NVidia / SGS Thomson Riva128\n")

    assert found.functions[0].vendor is None
    assert not found.nvidia_gpus


@pytest.mark.parametrize("around", ["{}", "== lspci -Dnnvvv\n{}", "rig@home:~$ sudo lspci\n{}"])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n"])
def test_what_stands_around_a_listing(around: str, end: str) -> None:
    assert lspci.parse(around.format(ROOT_PORTS).replace("\n", end)) == lspci.parse(ROOT_PORTS)


def test_a_line_that_a_mail_has_broken() -> None:
    broken = ROOT_PORTS.replace("CmpltRedir+ UpstreamFwd+", "CmpltRedir+\n UpstreamFwd+")
    port = lspci.parse(broken).by_address.get("0000:60:03.1")

    assert port is not None
    assert port.acs is not None
    assert port.acs.is_complete
    assert "UpstreamFwd" in port.acs.enabled


def test_heads_and_acs_alone_as_grep_leaves_them() -> None:
    grepped = "".join(
        line
        for line in ROOT_PORTS.splitlines(keepends=True)
        if "bridge" in line or "ACSCtl" in line
    )
    found = [one for one in lspci.parse(grepped).functions if one.acs]

    assert [one.address for one in found] == ["0000:40:01.1", "0000:60:03.1"]


@pytest.mark.parametrize(
    "text",
    [
        "\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl-\n",
        '00:00.0 "Host bridge" "Intel Corporation" "Device" -r04\n',
    ],
)
def test_what_is_no_listing_is_unparsed(text: str) -> None:
    found = lspci.parse(text)

    assert not found.functions
    assert found.unparsed


def test_of_a_block_that_is_cut_off_the_missing_part_is_not_taken_for_absent() -> None:
    at_acs = ROOT_PORTS.index("Capabilities: [2a0")
    cut = lspci.parse(ROOT_PORTS[:at_acs]).by_address.get("0000:40:01.1")
    whole = lspci.parse(ROOT_PORTS.replace("ACSCtl", "Xxx")).by_address.get("0000:40:01.1")

    assert cut is not None
    assert whole is not None
    assert (cut.acs, cut.lists_all) == (None, False)
    assert (whole.acs, whole.lists_all) == (None, True)


def test_a_number_that_is_cut_short_is_not_read_as_another() -> None:
    at_width = ROOT_PORTS.index("Width x16") + len("Width x1")
    port = lspci.parse(ROOT_PORTS[:at_width]).by_address.get("0000:40:01.1")

    assert port is not None
    assert port.link_capability is None


@given(
    at=st.integers(0, len(ROOT_PORTS)),
    length=st.integers(0, 300),
    text=st.text(max_size=40),
)
def test_no_damage_makes_it_raise_or_invent_cards(at: int, length: int, text: str) -> None:
    lspci.parse(text)
    lspci.parse(ROOT_PORTS[:at] + text + ROOT_PORTS[at + length :])

    cut = lspci.parse(ROOT_PORTS[:at])
    whole = lspci.parse(ROOT_PORTS)
    assert {one.address for one in cut.functions} <= {one.address for one in whole.functions}
    for one in cut.functions:
        known = whole.by_address.get(one.address)
        assert known is not None
        assert one.acs is None or one.acs.enabled <= (known.acs.enabled if known.acs else set())
        assert one.link_status in {None, known.link_status}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_snippet_keeps_cards_and_bridges_whole_and_heads_of_the_rest(
    shell: str, tmp_path: Path
) -> None:
    disk = (
        "0000:70:00.0 Non-Volatile memory controller [0108]: A disk [144d:a80a]\n\tLatency: 0\n\n"
    )
    (tmp_path / "listing").write_text(ROOT_PORTS + disk)
    fake = tmp_path / "lspci"
    fake.write_text(f'#!/bin/sh\n[ "$1" = -Dnnvvv ] && cat {tmp_path}/listing\nexit $CODE\n')
    fake.chmod(0o755)
    words = programs.shell(shell)

    def ask(code: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*words, "-c", called(lspci.SECTION.snippet)],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin", "CODE": str(code)},
            capture_output=True,
            text=True,
            check=False,
        )

    answer = ask(0)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == (ROOT_PORTS + disk).replace("\tLatency: 0\n\n", "\n")
    assert ask(1).returncode == 1


@pytest.mark.parametrize("shell", SHELLS)
def test_without_lspci_the_snippet_says_nothing(shell: str, tmp_path: Path) -> None:
    answer = subprocess.run(
        [*programs.shell(shell), "-c", called(lspci.SECTION.snippet)],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (answer.returncode, answer.stdout) == (0, "")
