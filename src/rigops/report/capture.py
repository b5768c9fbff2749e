"""Captures of hosts in lines: whether the disk may be wiped, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rigops.capture.document import Capture, NotCaptured, Requirement
from rigops.doctor.finding import HOST
from rigops.report.terminal import styled
from rigops.report.words import error_lines, wrapped

_COLORS: Final = {
    "fail": "red",
    "unknown": "magenta",
    "warn": "yellow",
    "info": "cyan",
    "ok": "green",
    "safe": "green",
    "not safe": "red",
}
_SHORT: Final = frozenset({"fail", "unknown", "warn"})  # others take -v
_HEADS: Final = {
    "safe": "SAFE TO WIPE",
    "not safe": "NOT SAFE TO WIPE",
    "unknown": "unknown: not proven safe to wipe",
}
_UNTRUSTED: Final = "If there was a break-in, trust neither its packages nor its backups."
_ID_WIDTH: Final = 16


def capture_lines(one: Capture | NotCaptured, width: int, *, verbose: bool) -> list[str]:
    if isinstance(one, NotCaptured):
        return error_lines(f"{one.host}: {one.error.message}", one.error.fix, width)
    head = styled(_HEADS[one.status], fg=_COLORS[one.status], bold=True)
    lines = [f"{styled(one.host, bold=True)}  {head}  {_about(one)}"]
    shown = [each for each in one.requirements if verbose or each.status in _SHORT]
    for each in shown:
        lines += _requirement(each, width, verbose=verbose)
    if not verbose:
        lines += _lists(one, width)
    lines += wrapped(_counts(one, len(shown)), width, "  ")
    if one.status == "safe":
        if gone := list(_gone(one)):
            lines += wrapped(f"Will not come back: {', '.join(gone)}", width, "  ")
        lines += wrapped(_UNTRUSTED, width, "  ")
    return [*lines, *wrapped(f"Stored in {one.place}", width, "  ")]


def _about(one: Capture) -> str:
    system = (one.system.os_name or "").split(" (")[0].replace(" GNU/Linux", "")
    undeclared = " (not declared)" if any(each.id == "driver" for each in one.requirements) else ""
    driver = f"driver {one.driver.version}{undeclared}" if one.driver else ""
    cards = f"{len(one.gpus)} GPU{'s' * (len(one.gpus) != 1)}" if one.gpus else ""
    return ", ".join(part for part in (system, driver, cards) if part)


def _gone(one: Capture) -> Iterator[str]:
    for each in one.requirements:
        if each.status == "warn" and each.id == "driver" and one.driver:
            yield f"driver {one.driver.version} (not declared)"
        if each.status == "warn" and each.id == "coverage":
            yield f"{each.subject} (in no backup)"


def _requirement(one: Requirement, width: int, *, verbose: bool) -> Iterator[str]:
    status = f"{one.status:<8}"
    subject = "" if one.subject == HOST or one.subject in one.summary else f"{one.subject}: "
    text = f"{status}{one.id:<{_ID_WIDTH}} {subject}{one.summary}"
    first, *rest = wrapped(text, width, "  ", hanging=" " * (_ID_WIDTH + 9))
    yield first.replace(status, styled(status, fg=_COLORS.get(one.status)), 1)
    yield from rest
    margin = " " * (_ID_WIDTH + 11)
    if one.fix:
        yield from wrapped(f"fix: {one.fix}", width, margin)
    if verbose:
        for evidence in one.evidence:
            yield from wrapped(f"{evidence.section}: {evidence.line}", width, margin, hanging="  ")


def _lists(one: Capture, width: int) -> Iterator[str]:
    """Data that stays elsewhere and is in no backup, in one line."""
    others = [
        each.subject
        for each in one.requirements
        if each.id == "coverage" and each.status == "info" and each.subject != HOST
    ]
    if others:
        text = f"info    in no backup, on other disks, which have to stay: {', '.join(others)}"
        yield from wrapped(text, width, "  ", hanging=" " * 8)


def _counts(one: Capture, shown: int) -> str:
    counts: dict[str, int] = {}
    for each in one.requirements:
        counts[each.status] = counts.get(each.status, 0) + 1
    text = ", ".join(f"{count} {status}" for status, count in counts.items())
    return text if shown == len(one.requirements) else f"{text}    All: rigops capture -v"
