"""A host in doctor's answer with all details: every finding with evidence, reason and fix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from rigops.doctor.finding import HOST
from rigops.python_literal import literal
from rigops.report.doctor_head import colored, head_lines
from rigops.report.words import MARGIN, grouped, wrapped

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding, Fix, Status
    from rigops.doctor.host_report import HostReport

_QUIET: Final[tuple[Status, ...]] = ("ok", "skipped")
_MOST_EVIDENCE: Final = 8
_LEAST_EVIDENCE: Final = 2
_HANGING: Final = "  "
_wrapped = partial(wrapped, hanging=_HANGING)


def detail_lines(host: HostReport, width: int) -> Iterator[str]:
    yield from head_lines(host, width)
    if host.error and host.error.fix:
        yield from _wrapped(f"fix: {host.error.fix}", width)
    for note in host.notes:
        yield from _wrapped(f"note: {note}", width)
    if host.unparsed:
        pieces = ", ".join(f"{count} of {name}" for name, count in host.unparsed.items())
        yield from _wrapped(f"note: unparsed lines, not checked: {pieces}", width)
    shown = [one for one in host.findings if one.status not in _QUIET]
    # Findings that read the same for several cards are shown once.
    same = grouped(shown, lambda one: (one.id, one.status, one.summary, one.fix and one.fix.text))
    for alike in same.values():
        yield from _finding(alike, width)
    for status in _QUIET:
        ids = list(dict.fromkeys(one.id for one in host.findings if one.status == status))
        if ids:
            yield from _led(status, f"  {status:<7} ", f"{len(ids)}: {', '.join(ids)}", width)


def _finding(alike: Sequence[Finding], width: int) -> Iterator[str]:
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
