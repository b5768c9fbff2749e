"""A reprovision in lines: how long each stage took, and the comparison with the capture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rigops.report.terminal import styled
from rigops.report.words import error_lines, minutes, wrapped
from rigops.reprovision.compare import Compared
from rigops.reprovision.result import ReprovisionResult

_COLORS: Final[Mapping[str, str]] = {
    "same": "green",
    "better": "green",
    "other": "yellow",
    "worse": "red",
    "failed": "red",
}
_WORDS: Final[Mapping[str, str]] = {
    "same": "the same as captured",
    "better": "better than captured",
    "worse": "WORSE than captured",
    "failed": "FAILED; run this again to go on from here",
    "unknown": "not reached; nothing was changed",
    "declined": "declined; run this again to go on from here",
    "interrupted": "interrupted; run this again to go on from here",
}
_ORDER: Final = ("worse", "other", "better", "same")


def reprovision_lines(one: ReprovisionResult, width: int, *, verbose: bool) -> list[str]:
    status = styled(_WORDS[one.status], fg=_COLORS.get(one.status), bold=True)
    of = "" if one.captured_as == one.host else f" (as {one.captured_as})"
    lines = [f"{styled(one.host, bold=True)}{of}  {status} (captured {one.captured_at})"]
    if one.error:
        lines += error_lines(one.error.message, one.error.fix, width, "  ")
    lines += _comparison(one, width, verbose=verbose)
    for text in one.story:
        lines += wrapped(text, width, "  ", hanging="  ")
    for text in one.hints:
        lines += wrapped(f"inventory: {text}", width, "  ", hanging="  ")
    return [*lines, *_times(one, width)]


def _comparison(one: ReprovisionResult, width: int, *, verbose: bool) -> Iterator[str]:
    counts: dict[str, int] = {}
    for line in one.compared:
        counts[line.verdict] = counts.get(line.verdict, 0) + 1
    shown = [line for line in one.compared if verbose or line.verdict != "same"]
    for line in sorted(shown, key=lambda each: _ORDER.index(each.verdict)):
        yield from _compared(line, width)
    if counts:
        text = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _ORDER if verdict in counts)
        more = "" if verbose or not counts.get("same") else "    All: -v"
        yield from wrapped(f"{text}{more}", width, "  ")


def _compared(line: Compared, width: int) -> Iterator[str]:
    word = f"{line.verdict:<8}"
    is_same = line.before == line.after
    change = line.before if is_same else f"{line.before} -> {line.after}"
    text = f"{word}{line.subject}: {change}"
    first, *rest = wrapped(text, width, "  ", hanging=" " * 8)
    yield first.replace(word, styled(word, fg=_COLORS.get(line.verdict)), 1)
    yield from rest
    if line.note:
        yield from wrapped(line.note, width, " " * 10)


def _times(one: ReprovisionResult, width: int) -> Iterator[str]:
    took = ", ".join(f"{stage.stage} {minutes(stage.seconds)}" for stage in one.stages)
    if took:
        total = sum(stage.seconds for stage in one.stages)
        all_runs = f"; all runs {minutes(one.total_s)}" if one.total_s > total + 1 else ""
        yield from wrapped(f"{minutes(total)} min: {took}{all_runs}", width, "  ", hanging="  ")
