"""The output of CUDA's samples that were run by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Finding, Status
from rigops.doctor.views.program_runs import (
    FIX,
    HANG,
    REFUSED,
    SHOWN_LINES,
    UNPROVEN,
    cited,
    pair_name,
    without_repeats,
)
from rigops.probe.sections.p2p_bandwidth_test import SECTION as P2P_TEST
from rigops.probe.sections.p2p_bandwidth_test import Matrix, Pair, Run, is_elided

# A direct copy crosses fewer links than one through the host's memory. Where it is slower at all,
# something redirects it; runs of one host differ by less than a fifth.
_FAR_SLOWER: Final = 0.5  # of the speed without P2P
# Direct writes take 1 or 2 us, staged ones 10 to 20; faults that time out, tens of thousands.
_FAR_LATER: Final = 5.0  # times the latency without P2P
# What waits for milliseconds has timed out: staged through the host's memory it takes 20 us.
_STUCK_US: Final = 2000.0
_SHOWN_PAIRS: Final = 2
_ORDER: Final = tuple(
    (quantity, is_enabled)
    for quantity in ("unidirectional", "bidirectional", "latency")
    for is_enabled in (False, True)
)

_BACK_AND_FORTH: Final = (
    "simpleP2P tries one pair and copies there and back; a card that only reads back what it wrote "
    "itself passes that. `rigops preflight` reads each copy where it has to arrive."
)


@Check("bench.p2p", needs=(P2P_TEST,), needs_gpu=False, fixes=("hands",), cause_rank=1050)
def p2p_test(examined: Examined) -> list[Finding]:
    """Copies between cards that p2pBandwidthLatencyTest or simpleP2P measured are as P2P should be.

    Only where such an output was given to doctor. A failure is P2P that is granted and far slower
    than the same copy without it, or answers far later, or after milliseconds; values that
    simpleP2P saw arrive wrong; an error of CUDA. An output that ends in the middle of a test is
    unknown: a hang looks like that. No access is information, which is normal for GeForce cards;
    so are fast copies, since p2pBandwidthLatencyTest never compares data.
    """
    answer = examined.snapshot[P2P_TEST]
    if answer.collected is None:
        return []
    runs = answer.or_empty.runs
    found = [finding for run in runs for finding in _of_run(run)]
    return without_repeats(found) or [Finding("unknown", "it shows no copy between cards")]


def _of_run(run: Run) -> list[Finding]:
    failures = list(_failures(run))
    if failures:
        return failures
    end = _unfinished(run)
    if end and (any(run.access.values()) or not run.access):
        return [
            Finding(
                "unknown",
                f"the output ends at: {end}",
                cited(P2P_TEST, [run.last_line]),
                why=HANG,
                data={"hang": True},
                essential=True,
            )
        ]
    return [_measured(run)]


def _failures(run: Run) -> Iterator[Finding]:
    if run.wrong or run.result == "failed":
        yield Finding(
            "fail",
            "values that are copied between the cards arrive wrong",
            cited(P2P_TEST, [*run.wrong[: SHOWN_LINES - 1], *filter(None, [run.result_line])]),
            why="The driver grants P2P, and data arrives changed: training on these cards "
            "computes with wrong numbers or hangs.",
            fix=FIX,
        )
    if run.errors:
        yield Finding(
            "fail",
            "copies between the cards end with an error of CUDA",
            cited(P2P_TEST, run.errors),
            fix=FIX,
        )
    slow = list(_worse(run, is_latency=False))
    if slow:
        yield _worse_finding(run, slow, "slower", "GB/s")
    late = [] if slow else list(_worse(run, is_latency=True))
    if late:
        yield _worse_finding(run, late, "later", "us")
    stuck = [] if slow or late else list(_stuck(run))
    if stuck:
        latency, pair, row = max(stuck)
        yield Finding(
            "fail",
            f"a direct copy between the cards takes milliseconds: {pair_name(pair)} {latency:g} us",
            cited(P2P_TEST, [row]),
            why="It takes 1 or 2 us where it arrives. Something on its way redirects it or lets it "
            "time out: an IOMMU that translates, ACS, or a driver that offers more than it can.",
            fix=FIX,
        )


def _stuck(run: Run) -> Iterator[tuple[float, Pair, str]]:
    """Also where the matrix without P2P was left out."""
    for matrix in run.matrices:
        if matrix.is_enabled and matrix.quantity == "latency":
            for pair, cell in matrix.cells.items():
                if cell > _STUCK_US and pair[0] != pair[1] and run.access.get(pair, True):
                    yield cell, pair, matrix.rows[pair[0]]


def _worse(run: Run, *, is_latency: bool) -> Iterator[tuple[Pair, Matrix, Matrix]]:
    """Each pair that is far worse with P2P than without, where both were measured.

    Without P2P latencies vary much, so only a pair that is known to have it counts.
    """
    for on in run.matrices:
        for off in run.matrices:
            is_same = (on.quantity, on.by) == (off.quantity, off.by)
            is_asked = is_same and (on.quantity == "latency") is is_latency
            if not (is_asked and on.is_enabled and not off.is_enabled):
                continue
            for pair in on.cells.keys() & off.cells.keys():
                has_access = run.access.get(pair, not is_latency)
                with_p2p, without = on.cells[pair], off.cells[pair]
                bad = (
                    with_p2p > without * _FAR_LATER
                    if is_latency
                    else with_p2p < without * _FAR_SLOWER
                )
                if has_access and bad and pair[0] != pair[1]:
                    yield pair, on, off


def _worse_finding(
    run: Run, found: Sequence[tuple[Pair, Matrix, Matrix]], how: str, unit: str
) -> Finding:
    pair, on, off = min(found, key=lambda one: (one[1].title, one[0]))
    pairs = sorted({one for one, _, _ in found})
    numbers = f"{on.cells[pair]:g} {unit}, {off.cells[pair]:g} {unit} without"
    more = f", and {len(pairs) - 1} more" if len(pairs) > 1 else ""
    return Finding(
        "fail",
        f"P2P is granted and far {how} than without it: {pair_name(pair)} {numbers}{more}",
        cited(
            P2P_TEST,
            [
                *filter(None, [run.access_lines.get(pair)]),
                *(line for one in (on, off) for line in (one.title, one.rows[pair[0]])),
            ],
        ),
        why="A direct copy crosses fewer links than one through the host's memory. Where it is far "
        f"{how}, something on its way redirects it or lets it time out.",
        fix=FIX,
        data={
            "pairs": [[run.addresses.get(one, str(one)) for one in each] for each in pairs],
        },
    )


def _unfinished(run: Run) -> str:
    """Where the program was when its output ended; empty where it came to its end."""
    if run.has_ended or is_elided(run.last_line):
        return ""
    last = run.matrices[-1] if run.matrices else None
    if last and not last.is_complete:
        return last.title
    shown = list(dict.fromkeys((one.quantity, one.is_enabled) for one in run.matrices))
    if shown != list(_ORDER[: len(shown)]):
        return ""  # others were left out before
    return run.last_line if run.has_begun and len(shown) < len(_ORDER) else ""


def _measured(run: Run) -> Finding:
    refused = sorted(pair for pair, is_granted in run.access.items() if not is_granted)
    granted = sorted(pair for pair, is_granted in run.access.items() if is_granted)
    if refused:
        named = ", ".join(map(pair_name, refused[:_SHOWN_PAIRS]))
        some = f"; {len(granted)} pairs have it" if granted else ""
        return Finding(
            "info",
            f"no P2P for {len(refused)} of {len(run.access)} pairs ({named}, …){some}"
            if len(refused) > _SHOWN_PAIRS
            else f"no P2P: {named}{some}",
            cited(P2P_TEST, [run.access_lines[one] for one in refused]),
            why=f"{REFUSED} {UNPROVEN}" if granted else REFUSED,
        )
    if run.result == "passed":
        line = cited(P2P_TEST, [run.result_line])
        return Finding("info", "simpleP2P's values arrived right", line, why=_BACK_AND_FORTH)
    measured = [one for one in run.matrices if one.is_enabled and one.quantity != "latency"]
    speeds = [
        (cell, matrix.rows[pair[0]])
        for matrix in measured[:1]  # one way, where that was copied
        for pair, cell in matrix.cells.items()
        if pair[0] != pair[1]
    ]
    if not speeds:
        status: Status = "info" if run.matrices else "unknown"
        return Finding(status, "it shows no copy between cards", cited(P2P_TEST, [run.last_line]))
    slowest, row = min(speeds)
    lines = [*list(run.access_lines.values())[:1], row]
    return Finding(
        "info",
        f"copies between the cards reach {slowest:g} GB/s or more; whether the data is right was "
        "not looked at",
        cited(P2P_TEST, lines),
        why=UNPROVEN,
    )
