"""What CUDA's samples measure between cards, cut anywhere."""

from __future__ import annotations

import pytest

from rigops.probe.sections.p2p_bandwidth_test import parse
from tests.unit.probe.pasted import OUTPUTS

PASTED = OUTPUTS["p2p-bandwidth-test"]


def test_a_whole_run() -> None:
    (run,) = parse(PASTED["granted-and-fast"]).runs

    assert run.addresses == {0: "0000:01:00.0", 1: "0000:c1:00.0"}
    assert run.access == {(0, 1): True, (1, 0): True}
    assert [(one.quantity, one.is_enabled, one.by) for one in run.matrices] == [
        ("unidirectional", False, "D\\D"),
        ("unidirectional", True, "D\\D"),
        ("bidirectional", False, "D\\D"),
        ("bidirectional", True, "D\\D"),
        ("latency", False, "GPU"),
        ("latency", False, "CPU"),
        ("latency", True, "GPU"),
        ("latency", True, "CPU"),
    ]
    assert run.matrices[1].cells[0, 1] == pytest.approx(26.34)
    assert run.matrices[6].rows[1] == "1   1.12   1.55"
    assert all(one.is_complete for one in run.matrices)
    assert (run.has_begun, run.has_ended) == (True, True)


def test_tables_that_lost_their_blanks_are_the_same_tables() -> None:
    (run,) = parse(PASTED["granted-and-slow"]).runs

    assert run.matrices[1].cells[1, 0] == pytest.approx(0.29)
    assert len(run.matrices) == 8
    assert not run.has_ended


@pytest.mark.parametrize(
    ("name", "rows", "last"),
    [
        ("ends-where-peers-begin", 0, "Unidirectional P2P=Enabled"),
        ("ends-in-a-kernel", None, "Run kernel on GPU1"),
    ],
)
def test_where_it_ends(name: str, rows: int | None, last: str) -> None:
    (run,) = parse(PASTED[name]).runs

    assert run.last_line.startswith(last)
    assert (len(run.matrices[-1].rows) if run.matrices else None) == rows
    assert not run.has_ended


def test_a_matrix_that_is_cut_is_incomplete() -> None:
    cut = PASTED["granted-and-fast"].partition("     1  26.35")[0]

    (run,) = parse(cut).runs

    assert [one.is_complete for one in run.matrices] == [True, False]
    assert run.matrices[1].cells == {(0, 0): 831.56, (0, 1): 26.34}


@pytest.mark.parametrize(
    ("name", "result", "wrong"),
    [("values-lost", "failed", 4), ("values-right", "passed", 0), ("waived", "waived", 0)],
)
def test_simple_p2p(name: str, result: str, wrong: int) -> None:
    (run,) = parse(PASTED[name]).runs

    assert (run.result, len(run.wrong)) == (result, wrong)
    assert run.access[0, 1] == (result != "waived")


def test_without_what_looks_like_a_quote_mark_it_is_the_same() -> None:
    (run,) = parse(PASTED["waived"].replace("> Peer", "Peer")).runs

    assert run.access == {(0, 1): False, (1, 0): False}


def test_two_programs_in_one_text_are_two_runs() -> None:
    found = parse(PASTED["values-lost"] + PASTED["granted-and-fast"] + PASTED["tables-alone"])

    assert [len(run.matrices) for run in found.runs] == [0, 8, 1]


def test_a_table_ends_where_its_rows_end() -> None:
    below = "```\n1 12.5\nGPU 0 1 2\n0 1 2 3\n"

    (run,) = parse(PASTED["granted-and-slow"] + below).runs

    assert run.matrices == parse(PASTED["granted-and-slow"]).runs[0].matrices


def test_what_is_none_of_them_is_unparsed() -> None:
    assert parse("hello\n").unparsed == ("hello",)
