"""Findings with why, fix and evidence, each folded below its summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rigops.doctor.finding import HOST, Finding, Fix
from rigops.python_literal import literal
from rigops.report.doctor_findings import by_urgency, is_grave
from rigops.report.html.elements import Html, badge, element, folded, joined, prose
from rigops.report.words import grouped

if TYPE_CHECKING:
    from rigops.doctor.host_report import HostReport

_FOLDED: Final = ("unknown", "ok", "skipped")


def findings(host: HostReport) -> Html:
    """What reads the same for several cards is one; what asks for nothing is folded."""
    loud = [one for one in by_urgency(host) if one.status not in _FOLDED or is_grave(one)]
    parts = [*_groups(loud)] or [element("p", "Nothing to report.")]
    for status in _FOLDED:
        quiet = [one for one in host.findings if one.status == status and one not in loud]
        if quiet:
            parts.append(folded(f"{len({one.id for one in quiet})} {status}", *_groups(quiet)))
    return joined(*parts)


def grouped_findings(found: Sequence[Finding]) -> list[list[Finding]]:
    same = grouped(found, lambda one: (one.id, one.status, one.summary, one.fix and one.fix.text))
    return list(same.values())


def subjects(alike: Sequence[Finding]) -> str:
    """Before a summary; empty for the host itself."""
    named = dict.fromkeys(one.subject for one in alike if one.subject != HOST)
    return f"{', '.join(named)}: ".replace("gpu 0000:", "gpu ") if named else ""


def fix_lines(fix: Fix) -> Iterator[tuple[str, list[str]]]:
    """What to do, and the lines to declare for it."""
    by = "" if fix.by_apply else " by hand" if fix.kind == "hands" else f" ({fix.kind})"
    declared = [f'"{key}": {literal(value)},' for key, value in (fix.declare or {}).items()]
    yield f"fix{by}: {fix.text}", declared
    if fix.by_apply and fix.by_hand:
        yield f"or by hand: {fix.by_hand}", []


def evidence_of(alike: Sequence[Finding]) -> list[str]:
    lines = dict.fromkeys(line for one in alike for line in one.evidence)
    return [f"{one.section}: {one.line}" for one in lines]


def _groups(found: Sequence[Finding]) -> Iterator[Html]:
    for alike in grouped_findings(found):
        yield _finding(alike)


def _finding(alike: Sequence[Finding]) -> Html:
    one = alike[0]
    text = element("span", prose(f"{subjects(alike)}{one.summary}"))
    head = joined(badge(one.status), element("code", one.id), text)
    body = [element("p", prose(one.why))] if one.why else []
    for words, declared in fix_lines(one.fix) if one.fix else ():
        body += [element("p", prose(words)), *_lines(declared)]
    body += _lines(evidence_of(alike))
    if not body:
        return element("div", head, class_="finding")
    return folded(head, *body, is_open=one.status == "fail", class_="finding")


def _lines(lines: Sequence[str]) -> list[Html]:
    """Each is one line, whatever is in it."""
    return [element("pre", *(joined(line, Html("\n")) for line in lines))] if lines else []
