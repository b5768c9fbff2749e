"""The output of NVIDIA's nvbandwidth that was run by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.doctor.check import Check
from rigops.doctor.finding import Finding
from rigops.doctor.views.program_runs import FIX, HANG, REFUSED, UNPROVEN, cited, pair_name
from rigops.probe.sections.nvbandwidth import SECTION as NVBANDWIDTH

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.probe.sections.nvbandwidth import Bandwidths, BandwidthTest

# Without P2P a copy is staged, which reaches about half of what a card reads from the host.
_SLOWER_THAN_STAGED: Final = 0.25  # of the slowest copy from the host
_MEASURED: Final = (
    "nvbandwidth compares its copies, unless an option turns that off, which its output does not "
    "show. It runs no collective and no long load: `rigops preflight` does."
)


@Check("bench.nvbandwidth", needs=(NVBANDWIDTH,), needs_gpu=False, fixes=("hands",))
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
