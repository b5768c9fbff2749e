"""`nvidia-smi topo -m` and `-p2p`, as printed and as pasted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.probe.sections import (
    nvidia_smi_p2p,
    nvidia_smi_topo,
)
from tests.unit.patterns import slow_growth

if TYPE_CHECKING:
    from collections.abc import Callable

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge
"""
PRINTED = (
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV4\tSYS\tPHB\t0-7,16-23\t0\t\tN/A\n"
    "GPU1\tNV4\t X \tSYS\tSYS\t0-7,16-23\t0,2\t\tN/A\n"
    "GPU2\tSYS\tSYS\t X \tNODE\t8-15\t1\t\tN/A\n"
    "NIC0\tPHB\tSYS\tNODE\t X \t\t\t\t\n"
) + LEGEND + "\nNIC Legend:\n\n  NIC0: mlx5_0\n"  # fmt: skip
OLDER = (
    "\t\x1b[4mGPU0\tGPU1\tmlx5_0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
    "GPU0\t X \tPXB\tPIX\t0-23\t\tN/A\n"
    "GPU1\tPXB\t X \tSOC\t0-23\t\t1\n"
    "mlx5_0\tPIX\tSOC\t X \t\t\n"
)
OLDEST = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n"
WINDOWS = "\t\x1b[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\nGPU0\t X \t\t\t\tN/A\n"
PASTED = """\
$ nvidia-smi topo -m
        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NODE    PIX     0-31            1               N/A
GPU1    NODE     X      SYS     0-31            1               N/A
NIC0    PIX     SYS      X
"""
BARE = " GPU0 GPU1 GPU2\nGPU0 X NV12 NV12\nGPU1 NV12 X NV18\nGPU2 NV12 NV18 X\n"
PEERS = """\
 \t\x1b[4mGPU0\tGPU1\tGPU2\x1b[0m\t
 GPU0\tX\tOK\tCNS\t
 GPU1\tOK\tX\tDR\t
 GPU2\tTNS\tU\tX\t

Legend:

  X    = Self
  OK   = Status Ok
  DR   = Disabled by Regkey
"""


def test_as_it_is_printed() -> None:
    found = nvidia_smi_topo.parse(PRINTED)

    assert found.gpus == (0, 1, 2)
    assert found.links == {
        (0, 1): "NV4", (1, 0): "NV4",
        (0, 2): "SYS", (1, 2): "SYS", (2, 0): "SYS", (2, 1): "SYS",
    }  # fmt: skip
    assert found.rows[0] == "GPU0\t X \tNV4\tSYS\tPHB\t0-7,16-23\t0\t\tN/A"
    assert len(found.rows) == 4
    assert not found.unparsed


@pytest.mark.parametrize(
    ("text", "gpus", "links"),
    [
        (OLDER, (0, 1), {(0, 1): "PXB", (1, 0): "PXB"}),
        (OLDEST, (0, 1), {(0, 1): "PIX", (1, 0): "PIX"}),
        (PASTED, (0, 1), {(0, 1): "NODE", (1, 0): "NODE"}),
        (WINDOWS, (0,), {}),
        (WINDOWS.replace("X \t\t", "X \t0-19\t1"), (0,), {}),
        (" GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n", (0, 1), {(0, 1): "SYS", (1, 0): "SYS"}),
    ],
    ids=["older", "oldest", "pasted", "windows", "one card", "no affinity"],
)  # fmt: skip
def test_layouts(text: str, gpus: tuple[int, ...], links: dict[tuple[int, int], str]) -> None:
    for whole in (
        text,
        text + LEGEND,
        text.replace("\n", "\r\n"),
        "== nvidia-smi topo -m\n" + text,
    ):
        found = nvidia_smi_topo.parse(whole)
        assert (found.gpus, found.links) == (gpus, links)
        assert not found.unparsed


@pytest.mark.parametrize(
    "line",
    [
        "ERROR: Option -m is missing its value. Please run 'nvidia-smi -h' for help.",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "Failed to get topology: GPU0 GPU1",
    ],
)
def test_an_error_is_no_matrix(line: str) -> None:
    for parse in (nvidia_smi_topo.parse, nvidia_smi_p2p.parse):
        found = parse(line + "\n")
        assert (found.gpus, found.rows, found.unparsed) == ((), (), (line,))


@pytest.mark.parametrize("cell", ["OK", "N", "NV", "??", "GPU1", "0-7"])
def test_a_row_with_a_cell_that_nobody_knows_is_not_read(cell: str) -> None:
    found = nvidia_smi_topo.parse(PRINTED.replace("GPU2\tSYS", f"GPU2\t{cell}"))

    assert len(found.unparsed) == 1
    assert set(found.links) == {(0, 1), (0, 2), (1, 0), (1, 2)}


def test_the_words_of_the_legend_are_no_rows() -> None:
    legend = "\nLegend:\n\nGPU0\t X \tNV9\tSYS\tPHB\n"

    found = nvidia_smi_topo.parse(PRINTED.partition("\nLegend")[0] + legend)
    assert found.links[0, 1] == "NV4"


def test_a_matrix_of_peers_that_is_mixed() -> None:
    found = nvidia_smi_p2p.parse(PEERS)

    assert found.cells == {
        (0, 1): "OK", (0, 2): "CNS", (1, 0): "OK", (1, 2): "DR", (2, 0): "TNS", (2, 1): "U",
    }  # fmt: skip
    assert found.granted == ((0, 1), (1, 0))
    assert not found.refuses_all
    assert not found.unparsed


def test_every_kind_of_peer_access_is_read_alike_and_asked_for_by_its_letter() -> None:
    sections = {
        "r": nvidia_smi_p2p.READ,
        "w": nvidia_smi_p2p.WRITE,
        "n": nvidia_smi_p2p.NVLINK,
        "a": nvidia_smi_p2p.ATOMICS,
    }
    for letter, section in sections.items():
        assert section.parse(PEERS) == nvidia_smi_p2p.parse(PEERS)
        assert f"nvidia-smi topo -p2p {letter} 2>&1" in section.snippet


def test_cards_are_found_behind_a_column_of_a_network_card() -> None:
    found = nvidia_smi_topo.parse(
        "\tNIC0\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"
        "NIC0\t X \tPHB\tSYS\t\t\n"
        "GPU0\tPHB\t X \tNV4\t0-23\t0\n"
        "GPU1\tSYS\tNV4\t X \t0-23\t1\n"
    )

    assert found.links == {(0, 1): "NV4", (1, 0): "NV4"}
    assert not found.unparsed


@pytest.mark.parametrize("text", [PRINTED, OLDER, OLDEST, PASTED, BARE])
def test_a_matrix_that_is_cut_says_nothing_else(text: str) -> None:
    whole = nvidia_smi_topo.parse(text)
    for length in range(len(text)):
        cut = nvidia_smi_topo.parse(text[:length])
        assert cut.links.items() <= whole.links.items()


def test_a_matrix_without_its_last_line_end_is_whole_all_the_same() -> None:
    assert nvidia_smi_topo.parse(BARE.rstrip("\n")) == nvidia_smi_topo.parse(BARE)


@given(text=st.text(), at=st.integers(0, 600))
def test_damage_never_raises(text: str, at: int) -> None:
    for damaged in (text, PRINTED[:at] + text + PRINTED[at:], OLDER[:at] + text):
        found = nvidia_smi_topo.parse(damaged)
        assert all(one in found.gpus and other in found.gpus for one, other in found.links)


@pytest.mark.parametrize(
    "head",
    ["", "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t", "as many columns as text"],
)
@pytest.mark.parametrize("parse", [nvidia_smi_topo.parse, nvidia_smi_p2p.parse])
def test_twice_the_text_takes_twice_the_time(parse: Callable[[str], object], head: str) -> None:
    units = ("GPU0 ", "GPU9 X\n", "x\n", "GPU0 GPU1\n", "\t", "\x1b[4m", "CPU Affinity", "NIC0 a ")
    for unit in units:

        def repeated(size: int, unit: str = unit) -> str:
            columns = "GPU0 " * (size // 5) + "\n"
            return (columns if head.startswith("as") else head) + unit * (size // len(unit))

        assert slow_growth(parse, repeated, 16 * 1024) is None
