"""Findings as lines: one for each summary, and one for the fix that several may share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from rigops.doctor.finding import HOST
from rigops.python_literal import literal
from rigops.report.doctor_details import colored
from rigops.report.words import grouped, wrapped

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding
    from rigops.doctor.host_report import HostReport

_WIDEST_ID: Final = 16
_TAG_COLUMN: Final = 46  # after the start of a summary
_GPU: Final = "gpu "
# Up to a full stop or semicolon between words, but for those in a command, brackets or a name.
_FIRST_SENTENCE: Final = re.compile(
    r"(?:`[^`]*`|\([^()]*\)|\b(?:Co|Corp|Inc|Ltd)\.|[.;](?! |$)|[^.;])*"
)
_BY: Final = {
    "apply": "apply",
    "apply+reboot": "apply, reboot",
    "hands": "by hand",
    "bios": "BIOS",
    "buy": "to buy",
    "accept": "to accept",
}


def by_urgency(host: HostReport) -> list[Finding]:
    """Findings that leave the whole host unknown come before warnings."""
    return sorted(
        host.findings,
        key=lambda one: 0 if one.status == "fail" else 1 if is_grave(one) else 2,
    )


def is_grave(finding: Finding) -> bool:
    return finding.status == "unknown" and finding.essential


def folded_checks(findings: Iterable[Finding]) -> list[Finding]:
    """What several checks say in the same words has one cause, and is one line."""
    alike = grouped(
        findings, lambda one: (one.status, one.subject, one.summary, one.fix and fix_key(one))
    )
    shown = []
    for first, *others in alike.values():
        ids = ", ".join(dict.fromkeys(one.id for one in others if one.id != first.id))
        same = f"{first.summary} (and {ids})"
        shown.append(replace(first, summary=same) if ids else first)
    return shown


class _Length(NamedTuple):
    """Of a fix: all of it, or the first sentence; how many lines at `most`."""

    is_whole: bool
    most: int | None


def columns_of(ids: Iterable[str], statuses: Iterable[str]) -> tuple[int, int]:
    """The widths of status and id."""
    return max(map(len, statuses), default=0), min(max(map(len, ids), default=0), _WIDEST_ID)


def finding_lines(
    host: HostReport,
    shown: Sequence[Finding],
    columns: tuple[int, int],
    width: int,
    *,
    most_whole: int = 0,
    most_lines: int | None = None,
) -> Iterator[list[str]]:
    """The lines of each group of findings with one fix.

    Of `most_whole` groups the fix is whole; of the others it has `most_lines`.
    """
    cards = host.facts.get("gpus")
    in_all = len(cards) if isinstance(cards, list) else 0
    fixed_by: dict[str, str] = {}  # by fix: the check below which it is shown
    groups = grouped(shown, lambda one: (one.id, one.status, _fix(one, alone=False))).values()
    for place, alike in enumerate(groups):
        same_as = fixed_by.setdefault(fix_key(alike[0]), alike[0].id)
        length = _Length(place < most_whole, None if place < most_whole else most_lines)
        yield list(_findings(alike, in_all, columns, width, same_as, length=length))


def _findings(
    alike: Sequence[Finding],
    in_all: int,
    columns: tuple[int, int],
    width: int,
    same_as: str,
    *,
    length: _Length,
) -> Iterator[str]:
    """Those of one check with one fix: a line for each summary, and one for the fix.

    `same_as`: the check that has this fix first.
    """
    status, check = alike[0].status, alike[0].id
    margin = " " * (sum(columns) + 6)
    lead = f"  {status:<{columns[0]}}  {check:<{columns[1]}}"
    for same in grouped(alike, lambda one: _without_address(one, one.summary)).values():
        text = _folded(same, in_all)
        first, *rest = wrapped(f"{lead}  {text}", width, "", hanging=margin)
        yield first.replace(status, colored(status, status), 1)
        yield from rest
    is_alone = len({one.subject for one in alike}) == 1
    if fix := _fix(alike[0], alone=is_alone, is_whole=length.is_whole):
        shown = fix if same_as == check else (f"as for {same_as}", "")
        yield from _fix_lines(*shown, width, margin, length.most)


def _fix_lines(text: str, tag: str, width: int, margin: str, most: int | None) -> list[str]:
    room = width - len(tag) - 1 if most else width
    lines = wrapped(f"fix: {text}", room, margin, hanging=" " * len("fix: "), most=most)
    column = len(margin) + _TAG_COLUMN
    if tag and len(lines) == 1 and column + len(tag) <= width:
        lines[0] = lines[0].ljust(column - 1)
    if tag and len(lines[-1]) + 1 + len(tag) > width:
        lines.append(f"{margin}    ")
    if tag:
        lines[-1] += f" {tag}"
    return lines


def _folded(same: Sequence[Finding], in_all: int) -> str:
    subjects = list(dict.fromkeys(one.subject for one in same if one.subject != HOST))
    if len(subjects) <= 1:
        return about(same[0]) + same[0].summary
    summary = _without_address(same[0], same[0].summary)
    if not all(subject.startswith(_GPU) for subject in subjects):
        return f"{summary} ({', '.join(subjects)})"
    named = "" if len(subjects) == in_all else f": {', '.join(map(_short, subjects))}"
    return f"{summary} ({len(subjects)} of {in_all or '?'} GPUs{named})"


def about(finding: Finding) -> str:
    subject = finding.subject
    if subject == HOST:
        return ""
    return f"GPU {_short(subject)}: " if subject.startswith(_GPU) else f"{subject}: "


def _short(subject: str) -> str:
    return subject.removeprefix(_GPU).removeprefix("0000:")


def _without_address(finding: Finding, text: str) -> str:
    is_card = finding.subject.startswith(_GPU)
    return text.replace(finding.subject.removeprefix(_GPU), "GPU") if is_card else text


def _fix(finding: Finding, *, alone: bool, is_whole: bool = False) -> tuple[str, str] | None:
    """The fix, and its kind; not `alone`: as for any card."""
    if finding.fix is None:
        return None
    fix = finding.fix
    if fix.by_apply and fix.is_declared:
        return "rigops apply", "(reboot)" if fix.kind == "apply+reboot" else ""
    if fix.by_apply and fix.declare:
        text = ", ".join(f'"{key}": {literal(value)}' for key, value in fix.declare.items())
    else:
        text = fix.text if is_whole else _first_sentence(fix.text)
    return text if alone else _without_address(finding, text), f"({_BY[fix.kind]})"


def fix_key(finding: Finding) -> str:
    """Findings with the same key are mended by the same act."""
    fix = finding.fix
    return f"{fix.text} {fix.declare}" if fix and fix.text else finding.id


def _first_sentence(text: str) -> str:
    sentence = text[: _FIRST_SENTENCE.match(text).end()]  # type: ignore[union-attr]  # of any text
    return sentence if len(sentence) >= len(text.rstrip(".")) else f"{sentence} …"
