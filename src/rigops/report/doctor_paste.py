"""Doctor's answer to a paste on one page: what is wrong, what was judged, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rigops.doctor.host_report import HostReport
from rigops.report.doctor_details import colored, head_lines, note_lines
from rigops.report.doctor_findings import (
    causes_by_urgency,
    columns_of,
    finding_lines,
    folded_checks,
)
from rigops.report.words import grouped, wrapped

MOST_COLUMNS: Final = 96  # of 100: in ASCII an ellipsis takes two more
_PAGE: Final = 20  # lines
_CLOSING: Final = 3  # the counts, the command for more and that for details
_LEAST: Final = 6
_BRIEF_FIX: Final = 2  # lines
_MANY: Final = 1000
_IN_LINES: Final = re.compile(r"no (?P<what>.+) in (?P<lines>(?:these|this) .+)")


class _Brevity(NamedTuple):
    """Of how many findings the fix is whole, how many are shown, and the lines of each output."""

    whole_fixes: int
    findings: int
    well: int


# The rest of long fixes goes first, and then what matters least.
_BREVITIES: Final = (
    _Brevity(_MANY, _MANY, _MANY),
    _Brevity(1, _MANY, 1),
    _Brevity(0, _MANY, 1),
    *(_Brevity(0, most, 0) for most in range(_PAGE, 0, -1)),
)


def pages_of(pastes: Sequence[HostReport], width: int) -> Iterator[list[str]]:
    """All together on one page; the first one may take most of it."""
    left = _PAGE - _CLOSING - len(pastes)  # an empty line after each
    for after, host in zip(reversed(range(len(pastes))), pastes, strict=True):
        page = _page(host, width, max(left - after * _LEAST, _LEAST))
        left -= len(page)
        yield page


def _page(host: HostReport, width: int, room: int) -> list[str]:
    lines: list[str] = []
    for brevity in _BREVITIES:
        if width < MOST_COLUMNS and brevity.whole_fixes:
            continue
        lines = list(_lines(host, width, brevity))
        if len(lines) <= room:
            break
    return lines


def _lines(host: HostReport, width: int, brevity: _Brevity) -> Iterator[str]:
    yield from head_lines(host, width)
    shown = folded_checks(
        one for one in causes_by_urgency(host) if one.status not in {"ok", "skipped"}
    )
    well = _well(host)
    statuses = {one.status for one in host.findings if one.status != "skipped"}
    columns = columns_of([one.id for one in shown], statuses)
    whole = brevity.whole_fixes
    groups = list(
        finding_lines(host, shown, columns, width, most_whole=whole, most_lines=_BRIEF_FIX)
    )
    for lines in groups[: brevity.findings]:
        yield from lines
    if left := len(groups[brevity.findings :]):
        yield f"  and {left} more finding{'s' * (left != 1)}: add -v"
    most = 1 if statuses & {"fail", "warn"} else brevity.well
    lead = f"  {'ok':<{columns[0]}}  "
    for output, text in well.items() if brevity.well else ():
        line = f"{lead}{output}: {text}"
        first, *rest = wrapped(line, width, "", hanging=" " * len(lead), most=most)
        yield first.replace("ok", colored("ok", "ok"), 1)
        yield from rest
    yield from note_lines(host, width)


def _well(host: HostReport) -> dict[str, str]:
    """What is ok, by the output that was judged."""
    from rigops.probe.pastes.kinds import NAMES  # noqa: PLC0415 - for pastes only

    well = [one for one in host.findings if one.status == "ok"]
    by_output = grouped(well, lambda one: NAMES.get(one.judged_by, one.judged_by))
    return {
        output: "; ".join(_without_repeats([one.summary for one in alike]))
        for output, alike in by_output.items()
    }


def _without_repeats(summaries: Sequence[str]) -> Iterator[str]:
    """What is in none of the lines of a log is one sentence."""
    shapes = {one: _IN_LINES.fullmatch(one) for one in summaries}
    yield from (one for one, shape in shapes.items() if shape is None)
    for lines, same in grouped(filter(None, shapes.values()), lambda shape: shape["lines"]).items():
        *others, last = sorted((shape["what"] for shape in same), key=len)
        yield f"in {lines}: no {', '.join(others)} or {last}" if others else same[0][0]
