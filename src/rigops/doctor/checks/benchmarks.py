"""Outputs of nvbandwidth, nccl-tests and gpu_burn that were run by hand."""

from __future__ import annotations

from typing import Final

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Finding, fix_by_hand
from rigops.doctor.views.program_runs import (
    FIX,
    HANG,
    REFUSED,
    UNPROVEN,
    cited,
    pair_name,
    without_repeats,
)
from rigops.numbers import whole
from rigops.probe.sections.gpu_burn import SECTION as GPU_BURN
from rigops.probe.sections.gpu_burn import Burn
from rigops.probe.sections.nccl_tests import SECTION as NCCL_TESTS
from rigops.probe.sections.nccl_tests import Row, Run
from rigops.probe.sections.nvbandwidth import SECTION as NVBANDWIDTH
from rigops.probe.sections.nvbandwidth import Bandwidths, BandwidthTest

# Without P2P a copy is staged, which reaches about half of what a card reads from the host.
_SLOWER_THAN_STAGED: Final = 0.25  # of the slowest copy from the host
_MEASURED: Final = (
    "nvbandwidth compares its copies, unless an option turns that off, which its output does not "
    "show. It runs no collective and no long load: `rigops preflight` does."
)

_NOT_COMPARED: Final = frozenset({"N/A", "n/a"})
_NO_NUMBER: Final = frozenset({"nan", "-nan", "inf"})
_SEVERAL: Final = 2
_ASK_NCCL: Final = fix_by_hand(
    "run it again with NCCL_DEBUG=INFO before it and give doctor that output too: its lines "
    "with WARN name the cause"
)

_TRY_WITHOUT: Final = fix_by_hand(
    "run it again with NCCL_P2P_DISABLE=1 before it: if it ends then, copies between the cards "
    "hang, and iommu.mode, acs.path and drv.pin of `rigops doctor` name the usual causes; if not, "
    "with NCCL_DEBUG=INFO, whose last lines show where it waits"
)
_WHY_BURN: Final = (
    "gpu_burn computes the same on each card again and again and compares: a card that is not "
    "damaged, overheated, overclocked or short of power makes no error."
)
_FIX_BURN: Final = fix_by_hand(
    "remove overclocking, look at power cables and temperature, and run it with this card "
    "alone (`-i`); if it fails in another slot too, the card is defective. The kernel log of that "
    "time names a Xid: give it to doctor"
)


@Check(
    "bench.nvbandwidth", needs=(NVBANDWIDTH,), needs_gpu=False, fixes=("hands",), cause_rank=1020
)
def nvbandwidth(examined: Examined) -> list[Finding]:
    """Copies that nvbandwidth measured came to their end, and arrived right.

    Only where its output was given to doctor. Values that arrived wrong, errors, and copies between
    cards that are far slower than copies from the host are failures. A test that begins and does
    not end is unknown: a hang looks like that. A test between cards that was waived is information.
    """
    answer = examined.snapshot[NVBANDWIDTH]
    if answer.collected is None:
        return []
    found = answer.or_empty
    for judge in (_wrong, _unended, _slower_than_staged):
        finding = judge(found)
        if finding:
            return [finding]
    between = [one for one in found.tests if _is_between_cards(one)]
    waived = [one for one in between if one.is_waived or _has_no_pair(one)]
    if waived:
        return [
            Finding(
                "info",
                "no P2P between the cards",
                cited(NVBANDWIDTH, [waived[0].line]),
                why=REFUSED,
            )
        ]
    if not between:
        return [Finding("info", "nothing was copied from card to card")]
    speeds = {cell: one for one in between for cell in one.cells.values() if cell is not None}
    if not speeds:
        cite = cited(NVBANDWIDTH, [between[0].line])
        return [Finding("unknown", "no speed between the cards could be read", cite)]
    slowest = min(speeds)
    words = "" if found.checks_data else ", and the data was not compared"
    return [
        Finding(
            "info",
            f"copies between the cards reach {slowest:g} GB/s or more{words}",
            cited(NVBANDWIDTH, [speeds[slowest].line, *speeds[slowest].rows]),
            why=_MEASURED if found.checks_data else UNPROVEN,
        )
    ]


def _wrong(found: Bandwidths) -> Finding | None:
    bad = [one for one in found.tests if one.wrong or one.errors]
    if not bad:
        return None
    first = bad[0]
    what = "copied the wrong values" if first.wrong else "ended with an error"
    return Finding(
        "fail",
        f"{first.name or 'nvbandwidth'} {what}",
        cited(NVBANDWIDTH, [first.line, *first.wrong, *first.errors]),
        why="Data from another card arrives changed. Where the program was built "
        "for another version of CUDA its own kernels may fail as well: rebuild it to be sure.",
        fix=FIX,
    )


def _unended(found: Bandwidths) -> Finding | None:
    last = found.tests[-1] if found.tests else None
    if last is None:
        return Finding("unknown", "it shows no test of nvbandwidth")
    if last.is_finished or last.is_waived:
        return None
    return Finding(
        "unknown",
        f"the output ends in {last.name or last.line}",
        cited(NVBANDWIDTH, [last.line]),
        why=HANG,
        essential=True,
    )


def _slower_than_staged(found: Bandwidths) -> Finding | None:
    by_name = {one.name: one for one in found.tests}
    from_host = by_name.get("host_to_device_memcpy_ce")
    host = [cell for cell in from_host.cells.values() if cell] if from_host else []
    for test in found.tests if host else ():
        slow = [
            (cell, pair)
            for pair, cell in test.cells.items()
            if _is_between_cards(test) and cell is not None and pair[0] != pair[1]
        ]
        cell, pair = min(slow, default=(min(host), (0, 0)))
        if cell < min(host) * _SLOWER_THAN_STAGED:
            return Finding(
                "fail",
                f"copies between the cards are far slower than from the host: {pair_name(pair)} "
                f"{cell:g} GB/s, from the host {min(host):g} GB/s",
                cited(NVBANDWIDTH, [test.line, *test.rows]),
                fix=FIX,
            )
    return None


def _is_between_cards(test: BandwidthTest) -> bool:
    return test.name.startswith("device_to_device") and "latency" not in test.name


def _has_no_pair(test: BandwidthTest) -> bool:
    return bool(test.cells) and all(cell is None for cell in test.cells.values())


@Check("bench.nccl", needs=(NCCL_TESTS,), needs_gpu=False, fixes=("hands",), cause_rank=1030)
def nccl_tests(examined: Examined) -> list[Finding]:
    """Collectives of nccl-tests came to their end with the right values.

    Only where an output of all_reduce_perf or its kin was given to doctor. Wrong values and errors
    are failures. A table that ends before its result is unknown: a hang looks like that; one that
    has no row, on several cards, is a warning. Without validation (`-c 0`, N/A in the table), or on
    one card, it proves nothing and is information.
    """
    answer = examined.snapshot[NCCL_TESTS]
    if answer.collected is None:
        return []
    found = without_repeats([_judge_collectives(run) for run in answer.or_empty.runs])
    return found or [Finding("unknown", "it shows no run of nccl-tests")]


def _judge_collectives(run: Run) -> Finding:
    wrong = [row for row in run.rows if _has_wrong_values(row)]
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
    if not run.has_ended and not run.rows and run.ranks >= _SEVERAL:
        return Finding(
            "warn",
            f"nccl-tests began on {run.ranks} cards and printed no row: it hangs, unless the "
            "output was cut",
            cited(NCCL_TESTS, [run.last_line]),
            why=HANG,
            fix=_TRY_WITHOUT,
            data={"hang": True},
        )
    if not run.has_ended:
        place = f"after {run.rows[-1].size} bytes" if run.rows else "before its first row"
        last = cited(NCCL_TESTS, [run.last_line])
        return Finding(
            "unknown",
            f"the output of nccl-tests ends {place}",
            last,
            why=HANG,
            data={"hang": True},
            essential=True,
        )
    return _judge_ended_collectives(run)


def _judge_ended_collectives(run: Run) -> Finding:
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


def _has_wrong_values(row: Row) -> bool:
    """Older ones print the greatest error there, which rounding explains."""
    return any(bool(whole(cell)) or cell.lower() in _NO_NUMBER for cell in row.wrong)


@Check("bench.burn", needs=(GPU_BURN,), needs_gpu=False, fixes=("hands",), cause_rank=1040)
def burn(examined: Examined) -> list[Finding]:
    """Every card that gpu_burn loaded computed without an error.

    Only where its output was given to doctor. FAULTY, DIED!, and any count of errors are failures,
    and so is a test that did not begin, which gpu_burn itself calls OK. An output that ends before
    its result is unknown.
    """
    answer = examined.snapshot[GPU_BURN]
    if answer.collected is None:
        return []
    return [_judge_burn(answer.or_empty)]


def _judge_burn(found: Burn) -> Finding:
    bad = {index: one.line for one in found.progress for index in one.errors}
    faulty = {index: found.lines[index] for index, is_ok in found.results.items() if not is_ok}
    last = found.progress[-1] if found.progress else None
    if bad or faulty:
        cards = ", ".join(f"GPU{index}" for index in sorted({*bad, *faulty}))
        counts = [count for one in found.progress for count in one.errors.values()]
        how = "stopped computing" if any(map(_has_died, counts)) else "computed wrong results"
        cited_lines = dict.fromkeys([*faulty.values(), *bad.values()])
        return Finding(
            "fail", f"{cards} {how}", cited(GPU_BURN, cited_lines), why=_WHY_BURN, fix=_FIX_BURN
        )
    if found.failures:
        lines = [*found.failures, last.line] if last else list(found.failures)
        summary = "gpu_burn could not test a card"
        return Finding("fail", summary, cited(GPU_BURN, lines), why=_WHY_BURN, fix=_FIX_BURN)
    if last is None:
        return Finding(
            "unknown", "nothing shows that gpu_burn computed", cited(GPU_BURN, found.lines.values())
        )
    if not found.has_ended:
        line = cited(GPU_BURN, [last.line])
        summary = f"the output of gpu_burn ends at {last.percent} %"
        return Finding("unknown", summary, line, essential=True)
    if last.idle:
        cards = ", ".join(f"GPU{index}" for index in sorted(last.idle))
        line = cited(GPU_BURN, [last.line])
        return Finding("unknown", f"{cards}: gpu_burn computed nothing", line)
    hottest = max((one for each in found.progress for one in each.celsius), default=None)
    heat = f", up to {hottest} °C" if hottest is not None else ""
    cards_ok = f"{len(found.results)} card{'s' * (len(found.results) != 1)}"
    return Finding(
        "ok",
        f"{cards_ok} computed without an error{heat}",
        cited(GPU_BURN, [last.line, *found.lines.values()]),
        why="Each card computes alone: nothing is copied between them.",
    )


def _has_died(count: str) -> bool:
    return "DIED" in count
