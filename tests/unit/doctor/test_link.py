"""Lanes, speed, place on the board."""

from __future__ import annotations

import pytest

from tests.unit.doctor.examining import checks_of, judge, spec
from tests.unit.doctor.pcie_rigs import (
    HEALTHY,
    ONE,
    OTHER,
    PCI,
    RISERS,
    ROOT_PORTS,
    awake,
    card,
    found,
    look,
    port,
    smi,
    smi_card,
)

WIDTH = "pci.width"


def rig(one: str, *, slot: str = "16.0,16", width: int = 16) -> dict[str, str]:
    """Two cards, of which the first one's link is as told, to every source alike."""
    ports = port("pci0000:40/0000:40:01.1", lanes=slot), port("pci0000:60/0000:60:03.1")
    cards = (
        card(f"pci0000:40/0000:40:01.1/{ONE}", lanes=one),
        card(f"pci0000:60/0000:60:03.1/{OTHER}"),
    )
    return {
        "pci": "".join((*ports, *cards)),
        "nvidia-smi-xml": smi(smi_card(ONE, width=width), smi_card(OTHER)),
    }


def test_an_idle_link_is_slow_and_well() -> None:
    finding = look(WIDTH)

    assert finding.status == "ok"
    assert "2.5 GT/s" in finding.why


@pytest.mark.parametrize(
    ("lanes", "slot", "width", "status", "said"),
    [
        ("2.5,8", "16.0,16", 8, "warn", "x8 where x16 is possible"),
        ("2.5,1", "16.0,16", 1, "warn", "x1 where x16 is possible"),
        ("2.5,4", "16.0,8", 4, "warn", "x4 where x8 is possible"),
        ("2.5,8", "16.0,8", 8, "info", "x8 of x16, all that its slot gives"),
        ("2.5,8", "-,-", 8, "info", "its slot's lanes are not known"),
        ("2.5,1", "-,-", 1, "warn", "x1 where x16 is possible"),
    ],
)
def test_lanes(lanes: str, slot: str, width: int, status: str, said: str) -> None:
    texts = rig(lanes, slot=slot, width=width)
    (finding,) = found(WIDTH, {**HEALTHY, **texts, "lspci": None})

    assert (finding.status, finding.subject) == (status, f"gpu {ONE}")
    assert said in finding.summary
    assert finding.evidence
    assert (finding.fix is not None) == (status == "warn")


# As QEMU's q35 writes its root port (pcie-root-port), here with x8 of a card's own x16.
QEMU = """\
00:01.0 PCI bridge [0604]: Red Hat, Inc. QEMU PCIe Root port{ids}
\tBus: primary=00, secondary=01, subordinate=01, sec-latency=0
\tCapabilities: [54] Express (v2) Root Port (Slot+), MSI 00
\t\tLnkCap:\tPort #16, Speed {port}, ASPM L0s, Exit Latency L0s <64ns
\t\tLnkSta:\tSpeed 8GT/s, Width x{now}

01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204]
\tCapabilities: [78] Express (v2) Legacy Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1, Exit Latency L1 <4us
\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x{now} (downgraded)

"""


@pytest.mark.parametrize("now", [8, 1])
@pytest.mark.parametrize("ids", ["", " [1b36:000c]"])
@pytest.mark.parametrize("port", ["16GT/s, Width x32", "2.5GT/s, Width x16"])
def test_a_port_that_a_hypervisor_made_up_proves_no_missing_lane(
    now: int, ids: str, port: str
) -> None:
    listing = QEMU.format(ids=ids, port=port, now=now)
    (finding,) = found(WIDTH, {"lspci": listing})

    assert finding.status == "info"
    assert f"x{now} of x16, in a virtual machine" in finding.summary


def test_a_port_of_another_vendor_with_a_width_that_no_link_has_is_not_believed() -> None:
    listing = QEMU.format(ids="", port="16GT/s, Width x32", now=16).replace("Red Hat", "Maker")
    (finding,) = found(WIDTH, {"lspci": listing})

    assert (finding.status, finding.evidence[-1].line.endswith("Width x32")) == ("ok", False)


def test_a_link_is_not_wider_than_its_port() -> None:
    (finding,) = found(WIDTH, {**HEALTHY, **rig("16.0,16", slot="2.5,1"), "lspci": None})

    assert finding.status == "ok"


def test_lspci_alone_tells_narrow_links() -> None:
    (finding,) = [one for one in found(WIDTH, {"lspci": RISERS}) if one.status == "warn"]

    assert finding.subject == "gpu 0000:03:00.0"
    assert "Width x1 (downgraded)" in finding.evidence[0].line


@pytest.mark.parametrize(
    ("width", "status"),
    [("x4 (downgraded)", "warn"), ("x8 (downgraded)", "info"), ("x4 (ok)", "unknown")],
)
def test_lspci_calls_a_link_narrow_where_nothing_tells_the_lanes_of_its_card(
    width: str, status: str
) -> None:
    unknown = "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:fff0]\n"
    link = f"\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width {width}\n\t\t\tTrErr- Train-\n"
    (finding,) = found(WIDTH, {"lspci": unknown + link})

    assert finding.status == status
    assert ("could have more lanes" in finding.summary) == ("(downgraded)" in width)
    assert all(width in one.line for one in finding.evidence)


@pytest.mark.parametrize("lanes", ["-,-", "2.5,63", "2.5,0"])
def test_a_link_that_cannot_be_read_is_unknown(lanes: str) -> None:
    pci = card(f"pci0000:40/0000:40:01.1/{ONE}", lanes=lanes)

    assert found(WIDTH, {"pci": pci})[0].status == "unknown"


def test_a_line_that_was_cut_short_is_no_narrow_card() -> None:
    line = card(f"pci0000:40/0000:40:01.1/{ONE}", lanes="2.5,1")
    cut = line[: line.index("max=16.0,1") + len("max=16.0,1")]

    assert found(WIDTH, {"pci": cut})[0].status == "unknown"


def test_only_cards_under_load_are_judged_by_their_generation() -> None:
    check = "pci.gen.load"
    busy = smi_card(ONE, busy=97, state="P0", generation=4)
    slow = smi_card(OTHER, busy=97, state="P0", generation=1)

    assert look(check).status == "skipped"
    assert look(check, nvidia_smi_xml=smi(busy, smi_card(OTHER))).status == "skipped"
    finding = look(check, nvidia_smi_xml=smi(busy, slow))
    assert (finding.status, finding.subject) == ("warn", f"gpu {OTHER}")
    both = smi(busy, smi_card(OTHER, busy=97, state="P0", generation=4))
    assert look(check, nvidia_smi_xml=both).status == "ok"


def test_a_card_behind_the_chipset_beside_one_that_is_not() -> None:
    check = "pci.chipset_lane"
    named = ROOT_PORTS.replace(
        "40:01.1 PCI bridge [0604]: Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge",
        "40:01.1 PCI bridge [0604]: Advanced Micro Devices, Inc. [AMD] 500 Series Chipset Switch",
    )
    narrow = rig("2.5,4", slot="16.0,4", width=4)

    assert look(check).status == "ok"
    (finding,) = found(check, {**HEALTHY, **narrow, "lspci": named})
    assert (finding.status, finding.subject) == ("warn", f"gpu {ONE}")
    assert look(check, lspci=named).status == "skipped"
    unnamed = ROOT_PORTS.replace("Starship/Matisse GPP Bridge", "Device 43f4")
    assert look(check, lspci=unnamed).status == "skipped"
    assert look(check, lspci=None).status == "skipped"


def test_ports_that_may_sleep() -> None:
    check = "pci.reset"
    sleepy = HEALTHY["aer"].replace(awake("0000:40:01.1"), awake("0000:40:01.1", "auto"))

    assert look(check).status == "ok"
    assert look(check, aer=sleepy).status == "info"
    assert "0000:40:01.1" in look(check, aer=sleepy).evidence[0].line
    assert look(check, aer=None).status == "skipped"
    assert look(check, aer=awake("0000:40:01.1")).status == "skipped"
    assert look(check, aer=sleepy, pci=PCI).status == "info"


@pytest.mark.parametrize(("width", "status"), [(16, "ok"), (8, "info"), (1, "warn")])
def test_nvidia_smi_alone(width: int, status: str) -> None:
    texts = {"nvidia-smi-xml": smi(smi_card(ONE, width=width), smi_card(OTHER))}
    (finding,) = found(WIDTH, texts)

    assert finding.status == status
    assert "current_link_width" in "".join(one.line for one in finding.evidence)
    assert "lspci" in finding.why or status == "warn"


def test_a_list_without_addresses_names_cards_by_their_index() -> None:
    listed = (
        "GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
        "GPU 1: NVIDIA GeForce RTX 3090 (UUID: GPU-11111111-2222-3333-4444-666666666666)\n"
    )
    texts = {"nvidia-smi-xml": listed}
    (finding,) = found(WIDTH, texts)

    assert (finding.status, finding.summary) == ("unknown", "the link of 0, 1 could not be read")
    assert found("gpu.count", texts, spec(gpus={"RTX 3090": 2}))[0].status == "unknown"


@pytest.mark.parametrize(
    ("slot", "status"),
    [("8.0,4", "warn"), ("8.0,2", "info"), ("-,-", "info")],
)
def test_a_disk_with_fewer_lanes_than_it_could_have(slot: str, status: str) -> None:
    disk = card("pci0000:20/0000:20:01.2/0000:21:00.0", driver="nvme", lanes="8.0,2", most="8.0,4")
    disk = disk.replace("class=0x030000", "class=0x010802")
    texts = {"pci": PCI + port("pci0000:20/0000:20:01.2", lanes=slot) + disk}
    (finding,) = judge({**HEALTHY, **texts, "lspci": None}, checks=checks_of("nvme.link"))

    assert (finding.status, finding.subject) == (status, "0000:21:00.0")
    assert "x2" in finding.summary
