"""`lspci -t` in the forms in which people and bug reports run it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.probe import pcie_routes
from rigops.probe.lspci_text import split_tree
from rigops.probe.sections import lspci
from rigops.probe.text import lines
from tests.unit.doctor.examining import snapshot_of

TREE = """\
-+-[0000:00]-+-00.0  Advanced Micro Devices, Inc. [AMD] Device [1022:14a4]
 |           +-01.1-[01]--+-00.0  NVIDIA Corporation AD102 [GeForce RTX 4090] [10de:2684]
 |           |            \\-00.1  NVIDIA Corporation AD102 High Definition Audio [10de:22ba]
 |           +-03.1-[03-08]----00.0-[04-08]--+-10.0-[05]----00.0  NVIDIA GPU [10de:2684]
 |           |                               \\-14.0-[06]--
 |           \\-07.1-[3a]--
 +-[0000:80]---00.0  Advanced Micro Devices, Inc. [AMD] Device [1022:14a4]
 \\-[10000:e0]---06.0-[e1]----00.0  Samsung NVMe SSD Controller PM9A1/PM9A3/980PRO [144d:a80a]
"""
ROUTE = ("0000:00:03.1", "0000:03:00.0", "0000:04:10.0")
BUSES = {
    "0000:00:01.1": 0x01,
    "0000:00:03.1": 0x03,
    "0000:03:00.0": 0x04,
    "0000:04:10.0": 0x05,
    "0000:04:14.0": 0x06,
    "0000:00:07.1": 0x3A,
    "10000:e0:06.0": 0xE1,
}
LISTING = """\
00:00.0 Host bridge [0600]: Advanced Micro Devices, Inc. [AMD] Device [1022:14a4]
00:03.1 PCI bridge [0604]: Advanced Micro Devices, Inc. [AMD] Device [1022:14ab]
03:00.0 PCI bridge [0604]: Broadcom / LSI PEX890xx PCIe Gen 5 Switch [1000:c030]
04:10.0 PCI bridge [0604]: Broadcom / LSI PEX890xx PCIe Gen 5 Switch [1000:c030]
05:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD102 [10de:2684] (rev a1)
"""


def buses(text: str) -> dict[str, int]:
    return split_tree(lines(text))[0]


def test_the_bus_below_each_bridge() -> None:
    assert buses(TREE) == BUSES
    assert not lspci.parse(TREE).unparsed


@pytest.mark.parametrize("around", ["{}", "== lspci -tv\n{}", "rig@home:~$ lspci -tv\n{}\nx$ "])
@pytest.mark.parametrize("end", ["\n", "\r\n", "  \n", "\n\n"])
def test_what_stands_around_a_tree_or_between_its_lines(around: str, end: str) -> None:
    assert buses(around.format(TREE).replace("\n", end)) == BUSES


@pytest.mark.parametrize("shift", ["    ", "  |  "])
def test_a_tree_that_was_moved_to_the_right(shift: str) -> None:
    moved = "".join(f"{shift}{line}\n" for line in TREE.splitlines())

    assert buses(moved) == (BUSES if shift.isspace() else {})


def test_without_names_and_without_a_domain() -> None:
    text = "-[00]-+-00.0\n      +-1c.0-[0A-0b]----00.0\n      \\-1f.7\n"

    assert buses(text) == {"0000:00:1c.0": 0x0A}


@pytest.mark.parametrize(
    "line",
    [
        " |           +-05.1-[zz]--+-00.0  A disk",
        " |           +-05.1-[09",
        " |           +-05.9",
        " |           +-45.0",
        " |           +-05.1 -[09]--",
        " |           +-[0000:09]--rubbish",
        " |         +-05.1-[09]----00.0",
        "             +-05.1-[09]----00.0",
        " |           |  +-05.1-[09]----00.0",
        " |           +",
        f" |           {'+-' * 600}05.1",
        "[...]",
    ],
)
def test_after_a_line_that_does_not_fit_nothing_is_hung_on_a_bridge(line: str) -> None:
    first, *others = TREE.splitlines(keepends=True)
    found = lspci.parse(f"{first}{line}\n{''.join(others)}")

    assert buses(f"{first}{line}\n{''.join(others)}") == {}
    assert line in found.unparsed
    assert len(found.unparsed) == len(others) + 1


def test_a_function_without_a_bus_is_no_function() -> None:
    found = lspci.parse("-+-[0000:00]-+-00.0\n \\-01.1\n")

    assert found.unparsed == (" \\-01.1",)


def test_a_second_tree_begins_anew() -> None:
    both = f"{TREE[: TREE.index(' |           |')]}[...]\n{TREE}"

    assert buses(both) == BUSES


def test_a_tree_alone_lists_nothing_so_that_no_card_counts_as_absent() -> None:
    found = lspci.parse(TREE)

    assert (found.functions, found.nvidia_gpus) == ((), ())


@pytest.mark.parametrize("text", [f"{TREE}\n{LISTING}", f"{LISTING}{TREE}"])
def test_beside_a_brief_listing_the_tree_leads_from_a_card_to_the_root(text: str) -> None:
    found = lspci.parse(text)

    assert not found.unparsed
    assert [one.address for one in found.nvidia_gpus] == ["0000:05:00.0"]
    assert pcie_routes.route_to(snapshot_of(lspci=found), "0000:05:00.0") == pcie_routes.Route(
        "0000:05:00.0", ROUTE
    )
    assert pcie_routes.route_to(snapshot_of(lspci=lspci.parse(LISTING)), "0000:05:00.0") is None


def test_what_a_bridge_says_of_itself_outweighs_the_tree() -> None:
    said = "00:03.1 PCI bridge: A\n\tBus: primary=00, secondary=77\n\n"
    port = lspci.parse(said + TREE).by_address.get("0000:00:03.1")

    assert port is not None
    assert port.secondary_bus == 0x77


def test_a_listing_cut_short_before_a_tree_is_whole() -> None:
    card = "01:00.0 VGA compatible controller: NVIDIA\n\tLnkSta: Speed 16GT/s, Width x16\n"
    (one,) = lspci.parse(card + TREE.removesuffix("\n")).functions

    assert one.link_status is not None
    assert one.link_status.width == 16


@given(at=st.integers(0, len(TREE)), length=st.integers(0, 300), text=st.text(max_size=40))
def test_damage_never_raises_and_a_cut_invents_nothing(at: int, length: int, text: str) -> None:
    lspci.parse(TREE[:at] + text + TREE[at + length :])

    assert buses(TREE[:at]).items() <= BUSES.items()


@given(st.text(alphabet="-+\\|[] 01.:\n"))
def test_pieces_of_trees_never_raise(text: str) -> None:
    lspci.parse(text)


@given(st.integers(0, len(TREE.splitlines()) - 1))
def test_a_line_that_is_missing_moves_nothing(missing: int) -> None:
    left = TREE.splitlines(keepends=True)
    del left[missing]

    assert buses("".join(left)).items() <= BUSES.items()
