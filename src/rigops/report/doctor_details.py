"""A host in doctor's answer: its first lines, and with all details every finding with evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from rigops.doctor.finding import HOST, Finding, Fix, Status
from rigops.python_literal import literal
from rigops.report.stories import Told
from rigops.report.terminal import styled, visible
from rigops.report.words import MARGIN, clipped, grouped, without_place, wrapped

if TYPE_CHECKING:
    from rigops.doctor.host_report import HostReport

_COLORS: Final = {
    "fail": "red",
    "unknown": "magenta",
    "warn": "yellow",
    "info": "cyan",
    "ok": "green",
}
_LOUD: Final = frozenset({"fail", "warn"})
_AFTER_LOGIN: Final = frozenset({"sudo", "fault"})  # kinds of errors of a host that was reached
_CODE_NAME: Final = re.compile(r" \([^()]*\)$")


def colored(text: str, status: str, *, bold: bool = False) -> str:
    return styled(text, fg=_COLORS.get(status), bold=bold)


def host_status(host: HostReport) -> str:
    return host.status.upper() if host.status in _LOUD else host.status


def head_lines(host: HostReport, width: int) -> list[str]:
    status = host_status(host)
    about = not_checked(host) or about_host(host)
    name, room = visible(host.host), width - len(f"  {status}")
    if len(name) > room:  # of a file that was saved under its title
        name = f"{name[: room - 1]}…"
    lead = f"{name}  {status}"
    first, *rest = wrapped(f"{lead}  {about}", width, "", hanging="  ")
    if first.startswith(lead):
        shown = colored(status, host.status, bold=True)
        first = f"{styled(name, bold=True)}  {shown}{first[len(lead) :]}"
    return [first, *rest]


def not_checked(host: HostReport) -> str:
    """Why, in one sentence; the row or line names the host already."""
    if host.error is None:
        return ""
    what = "not checked" if host.error.kind in _AFTER_LOGIN else "not reached"
    return f"{what}: {without_place(host.error.message, host.host)}"


def about_host(host: HostReport) -> str:
    facts = host.facts
    system = _CODE_NAME.sub("", str(facts.get("os") or "")).replace(" GNU/Linux", "")
    kernel = str(facts.get("kernel") or "").removesuffix("-amd64")
    parts = [
        system,
        f"kernel {kernel}" if kernel else "",
        f"driver {facts['driver']}" if facts.get("driver") else "",
        _cards(facts.get("gpus")),
    ]
    return ", ".join(part for part in parts if part)


def _cards(gpus: object) -> str:
    if not isinstance(gpus, list) or not gpus:
        return ""
    models = [str(gpu.get("model") or gpu.get("name") or "unknown GPU") for gpu in gpus]
    return ", ".join(
        f"{models.count(model)}x {model.removeprefix('GeForce ')}"
        for model in dict.fromkeys(models)
    )


_QUIET: Final[tuple[Status, ...]] = ("ok", "skipped")
_MOST_NOTE: Final = 2  # lines
_MOST_EVIDENCE: Final = 8
_LEAST_EVIDENCE: Final = 2
_HANGING: Final = "  "
_wrapped = partial(wrapped, hanging=_HANGING)


def opening_lines(host: HostReport, width: int) -> Iterator[str]:
    """Its head line, why it was not reached, and notes."""
    yield from head_lines(host, width)
    if host.error and host.error.fix:
        yield from wrapped(f"fix: {host.error.fix}", width, "  ", hanging="     ")
    yield from note_lines(host, width)


def note_lines(host: HostReport, width: int) -> Iterator[str]:
    notes = []
    for words, same in grouped(host.notes, lambda note: note.partition(" ")[2]).items():
        others = f" and {len(same) - 1} more" if len(same) > 1 else ""
        notes.append(f"{same[0].partition(' ')[0]}{others} {words}")
    if host.unparsed:
        pieces = ", ".join(f"{count} of {name}" for name, count in host.unparsed.items())
        notes.append(f"unparsed lines, not checked: {pieces}")
    for note in notes:
        what, _, fix = note.partition("; fix: ")
        lines = wrapped(f"note: {what}", width, "  ", hanging="      ")
        if len(lines) > _MOST_NOTE:
            lines[_MOST_NOTE - 1 :] = [clipped(f"{lines[_MOST_NOTE - 1]} …", width)]
        yield from lines
        if fix:
            yield from wrapped(f"fix: {fix}", width, "        ", hanging="     ")


def detail_lines(host: HostReport, width: int) -> Iterator[str]:
    yield from head_lines(host, width)
    if host.error and host.error.fix:
        yield from _wrapped(f"fix: {host.error.fix}", width)
    for note in host.notes:
        yield from _wrapped(f"note: {note}", width)
    if host.unparsed:
        pieces = ", ".join(f"{count} of {name}" for name, count in host.unparsed.items())
        yield from _wrapped(f"note: unparsed lines, not checked: {pieces}", width)
    quiet = {"skipped"} if host.is_paste else _QUIET
    shown = [one for one in host.findings if one.status not in quiet]
    # Findings that read the same for several cards are shown once.
    same = grouped(shown, lambda one: (one.id, one.status, one.summary, one.fix and one.fix.text))
    told = Told(host)
    for alike in same.values():
        yield from _finding(alike, width, for_strangers=host.is_paste)
        for line in _story_lines(told, alike):
            yield from _wrapped(line, width)
    for status in () if host.is_paste else _QUIET:
        ids = list(dict.fromkeys(one.id for one in host.findings if one.status == status))
        if ids:
            yield from _led(status, f"  {status:<7} ", f"{len(ids)}: {', '.join(ids)}", width)
    if host.is_paste:
        skipped = len({one.id for one in host.findings if one.status == "skipped"})
        yield f"  skipped {skipped} checks, of which the paste shows nothing"


def _story_lines(told: Told, alike: Sequence[Finding]) -> Iterator[str]:
    if effects := told.explained(alike):
        yield f"explains: {effects}"
    for story in told.stories(alike):
        yield f"story {story.id}: {story.text}"
    if causes := told.causes(alike):
        yield f"explained by: {causes}"


def _finding(alike: Sequence[Finding], width: int, *, for_strangers: bool) -> Iterator[str]:
    finding = alike[0]
    subjects = ", ".join(one.subject for one in alike if one.subject != HOST)
    about = f"{subjects}: " if subjects else ""
    head = f"  {finding.status:<7} {finding.id}  "
    yield from _led(finding.status, head, about + finding.summary, width)
    evidence = list(dict.fromkeys(line for one in alike for line in one.evidence))
    most = _LEAST_EVIDENCE if finding.status == "info" else _MOST_EVIDENCE
    for piece in evidence[:most]:
        yield from _wrapped(f"{piece.section}: {piece.line.strip()}", width)
    if len(evidence) > most:
        more = len(evidence) - most
        yield f"{MARGIN}and {more} more line{'' if more == 1 else 's'} (--json shows all)"
    if finding.why:
        yield from _wrapped(f"why: {finding.why}", width)
    if finding.fix:
        yield from _fix(finding.fix, width)
        if for_strangers and finding.fix.by_apply and finding.fix.by_hand:
            yield from _wrapped(f"or by hand: {finding.fix.by_hand}", width)


def _led(status: str, lead: str, text: str, width: int) -> Iterator[str]:
    first, *rest = wrapped(lead + text, width, "", hanging=MARGIN + _HANGING)
    yield colored(first[: len(lead)], status) + first[len(lead) :]
    yield from rest


def _fix(fix: Fix, width: int) -> Iterator[str]:
    by = "" if fix.by_apply else " by hand:" if fix.kind == "hands" else f" {fix.kind}:"
    yield from _wrapped(f"fix:{by} {fix.text}", width)
    for key, value in (fix.declare or {}).items():
        declared = f'in the inventory: "{key}": {literal(value)},'
        yield from wrapped(declared, width, MARGIN + " " * len("fix: "), hanging=_HANGING)
