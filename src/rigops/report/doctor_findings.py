"""Findings as lines: one for each summary, and one for the fix that several may share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from rigops.doctor.finding import HOST, UNKNOWN_CARD, Finding
from rigops.python_literal import literal
from rigops.report.doctor_details import colored
from rigops.report.stories import GPU, Told, short
from rigops.report.words import grouped, wrapped

if TYPE_CHECKING:
    from rigops.doctor.host_report import HostReport

_WIDEST_ID: Final = 18
_TAG_COLUMN: Final = 46  # after the start of a summary
_ON_THE_BUS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
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
    """Findings that leave the whole host unknown come before warnings.

    A cause is as urgent as what it explains.
    """
    return [host.findings[at] for at in _places(host)]


def causes_by_urgency(host: HostReport) -> list[Finding]:
    """Without those that another one explains."""
    explained = {at for story in host.stories for at in story.effects}
    return [host.findings[at] for at in _places(host) if at not in explained]


def _places(host: HostReport) -> list[int]:
    urgency = [0 if one.status == "fail" else 1 if is_grave(one) else 2 for one in host.findings]
    for story in host.stories:
        urgency[story.cause] = min(urgency[at] for at in (story.cause, *story.effects))
    return sorted(range(len(urgency)), key=urgency.__getitem__)


def is_grave(finding: Finding) -> bool:
    return finding.status == "unknown" and finding.essential


def folded_checks(findings: Iterable[Finding]) -> list[Finding]:
    """The same words of several checks are one line."""
    lines = grouped(
        findings, lambda one: (one.status, one.subject, one.summary, one.fix and fix_key(one))
    )
    return [_with_ids(*same) for same in lines.values()]


def _with_ids(first: Finding, *others: Finding) -> Finding:
    ids = ", ".join(dict.fromkeys(one.id for one in others if one.id != first.id))
    return replace(first, summary=f"{first.summary} (and {ids})") if ids else first


class _Form(NamedTuple):
    """Of a fix: all of it, or the first sentence; how many lines at `most`.

    `for_strangers`: they have no inventory to declare anything in, and act by hand.
    """

    is_whole: bool
    most: int | None
    for_strangers: bool


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
    told = Told(host)
    brief = _Form(is_whole=False, most=most_lines, for_strangers=host.is_paste)
    groups = grouped(
        shown, lambda one: (one.id, one.status, _fix(one, brief, alone=False))
    ).values()
    for place, alike in enumerate(groups):
        same_as = fixed_by.setdefault(fix_key(alike[0]), alike[0].id)
        form = brief._replace(is_whole=True, most=None) if place < most_whole else brief
        lines = list(_findings(alike, in_all, columns, width, same_as, form=form))
        if effects := told.explained(alike):
            margin, hanging = " " * (sum(columns) + 6), " " * len("explains: ")
            lines += wrapped(f"explains: {effects}", width, margin, hanging=hanging)
        yield lines


def _findings(
    alike: Sequence[Finding],
    in_all: int,
    columns: tuple[int, int],
    width: int,
    same_as: str,
    *,
    form: _Form,
) -> Iterator[str]:
    """Those of one check with one fix: a line for each summary, and one for the fix.

    `same_as`: the check that has this fix first.
    """
    status, check = alike[0].status, alike[0].id
    margin = " " * (sum(columns) + 6)
    lead = f"  {status:<{columns[0]}}  {check:<{columns[1]}}"
    for same in grouped(alike, lambda one: one.summary.replace(_address(one), "")).values():
        text = _folded(same, in_all)
        first, *rest = wrapped(f"{lead}  {text}", width, "", hanging=margin)
        yield first.replace(status, colored(status, status), 1)
        yield from rest
    is_alone = len({one.subject for one in alike}) == 1
    if fix := _fix(alike[0], form, alone=is_alone):
        shown = fix if same_as == check else (f"as for {same_as}", "")
        yield from _fix_lines(*shown, width, margin, form.most)


def _fix_lines(text: str, tag: str, width: int, margin: str, most: int | None) -> list[str]:
    hanging = " " * len("fix: ")
    lines = wrapped(f"fix: {text}", width, margin, hanging=hanging)
    if most and (len(lines) > most or len(lines[-1]) + 1 + len(tag) > width):
        rest = " ".join(line.strip() for line in lines[most - 1 :])
        last = wrapped(rest, width - len(tag) - 1, f"{margin}{hanging}", most=1)
        lines = [*lines[: most - 1], *last]
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
    summary, address = same[0].summary, _address(same[0])
    if len(subjects) <= 1:
        return about(same[0]) + summary
    if not all(subject.startswith(GPU) for subject in subjects):
        if address and address in summary:
            return summary.replace(address, ", ".join(dict.fromkeys(map(_address, same))))
        return f"{summary} ({', '.join(subjects)})"
    summary = _without_address(same[0], summary)
    named = "" if len(subjects) == in_all else f": {', '.join(map(short, subjects))}"
    return f"{summary} ({len(subjects)} of {in_all or '?'} GPUs{named})"


def about(finding: Finding) -> str:
    """The subject, where the summary does not name it."""
    subject = finding.subject
    address = _address(finding)
    if subject in {HOST, UNKNOWN_CARD} or (address and address in finding.summary):
        return ""
    return f"GPU {short(subject)}: " if subject.startswith(GPU) else f"{subject}: "


def _address(finding: Finding) -> str:
    """Of the device on the bus that is its subject; or empty."""
    found = _ON_THE_BUS.search(finding.subject)
    return found[0] if found else ""


def _without_address(finding: Finding, text: str) -> str:
    address = _address(finding)
    return text.replace(address, "GPU") if address and finding.subject.startswith(GPU) else text


def _fix(finding: Finding, form: _Form, *, alone: bool) -> tuple[str, str] | None:
    """The fix, and its kind; not `alone`: as for any card."""
    if finding.fix is None:
        return None
    fix = finding.fix
    if fix.by_apply and fix.is_declared:
        return "rigops apply", "(reboot)" if fix.kind == "apply+reboot" else ""
    if fix.by_apply and fix.declare:
        declared = ", ".join(f'"{key}": {literal(value)}' for key, value in fix.declare.items())
        if form.for_strangers and fix.by_hand:
            return _part(fix.by_hand, form), f"(or declare {declared})"
        return declared, f"({_BY[fix.kind]})"
    text = _part(fix.text, form)
    return text if alone else _without_address(finding, text), f"({_BY[fix.kind]})"


def fix_key(finding: Finding) -> str:
    """Findings with the same key are mended by the same act."""
    fix = finding.fix
    return f"{fix.text} {fix.declare}" if fix and fix.text else finding.id


def _part(text: str, form: _Form) -> str:
    if form.is_whole:
        return text
    sentence = text[: _FIRST_SENTENCE.match(text).end()]  # type: ignore[union-attr]  # of any text
    return sentence if len(sentence) >= len(text.rstrip(".")) else f"{sentence} …"
