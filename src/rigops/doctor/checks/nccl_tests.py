"""The output of nccl-tests that was run by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.doctor.check import Check
from rigops.doctor.finding import Finding, fix_by_hand
from rigops.doctor.views.program_runs import FIX, HANG, cited, without_repeats
from rigops.numbers import whole
from rigops.probe.sections.nccl_tests import SECTION as NCCL_TESTS

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.probe.sections.nccl_tests import Row, Run

_NOT_COMPARED: Final = frozenset({"N/A", "n/a"})
_NO_NUMBER: Final = frozenset({"nan", "-nan", "inf"})
_SEVERAL: Final = 2
_ASK_NCCL: Final = fix_by_hand(
    "run it again with NCCL_DEBUG=INFO before it and give doctor that output too: its lines "
    "with WARN name the cause"
)


@Check("bench.nccl", needs=(NCCL_TESTS,), needs_gpu=False, fixes=("hands",))
def nccl_tests(examined: Examined) -> list[Finding]:
    """Collectives of nccl-tests came to their end with the right values.

    Only where an output of all_reduce_perf or its kin was given to doctor. Wrong values and errors
    are failures, a table that ends before its result is unknown: a hang looks like that. Without
    validation (`-c 0`, N/A in the table), or on one card, it proves nothing and is information.
    """
    answer = examined.snapshot[NCCL_TESTS]
    if answer.collected is None:
        return []
    found = without_repeats([_judged(run) for run in answer.or_empty.runs])
    return found or [Finding("unknown", "it shows no run of nccl-tests")]


def _judged(run: Run) -> Finding:
    wrong = [row for row in run.rows if _is_wrong(row)]
    if wrong or run.has_failed:
        lines = [*(one.line for one in wrong), run.result_line][-_SEVERAL:]
        return Finding(
            "fail",
            "collectives between the cards compute wrong values",
            cited(NCCL_TESTS, lines),
            why="Data from another card arrives changed: training on these cards "
            "computes with wrong numbers.",
            fix=FIX,
        )
    if run.failures:
        lines = list(run.failures)
        return Finding(
            "fail", "nccl-tests ended with an error", cited(NCCL_TESTS, lines), fix=_ASK_NCCL
        )
    if not run.has_ended:
        place = f"after {run.rows[-1].size} bytes" if run.rows else "before its first row"
        last = cited(NCCL_TESTS, [run.last_line])
        return Finding(
            "unknown", f"the output of nccl-tests ends {place}", last, why=HANG, essential=True
        )
    return _ended(run)


def _ended(run: Run) -> Finding:
    lines = [*(row.line for row in run.rows[-1:]), run.result_line]
    evidence = cited(NCCL_TESTS, lines)
    if 0 < run.ranks < _SEVERAL:
        return Finding("info", "nccl-tests ran on one card, which copies to no other", evidence)
    cells = [cell for row in run.rows for cell in row.wrong]
    if run.validates is False or not cells or _NOT_COMPARED.issuperset(cells):
        return Finding(
            "info",
            "collectives came to their end, and no value was compared",
            evidence,
            why='Without validation (`-c 1`) "Out of bounds values : 0 OK" says nothing. '
            "`rigops preflight` compares them.",
        )
    fastest = max((row.bus_gb_s for row in run.rows if row.bus_gb_s is not None), default=0)
    sizes = f"{len(run.rows)} size{'s' * (len(run.rows) != 1)}"
    return Finding(
        "ok", f"collectives of {sizes} computed the right values, up to {fastest:g} GB/s", evidence
    )


def _is_wrong(row: Row) -> bool:
    """Older ones print the greatest error there, which rounding explains."""
    return any(bool(whole(cell)) or cell.lower() in _NO_NUMBER for cell in row.wrong)
