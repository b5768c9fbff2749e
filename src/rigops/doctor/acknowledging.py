"""Findings that are known already: a person has acknowledged them, or preflight passed since."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rigops.doctor.finding import Evidence, Finding
from rigops.doctor.views.proof import last_proof
from rigops.record.acknowledged import Acknowledgement

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined

SECTION: Final = "acknowledged"  # of evidence
LAST: Final = "last"  # in a finding's data: when an incident last happened, by the host's clock
# A preflight that passes is the way to end it.
NEVER: Final = "p2p.proof"
_WORSE: Final[dict[str, int]] = {"fail": 2, "warn": 1}
_OVER: Final = "; acknowledged until {}, which is over"
# Words that are no part of the state, and measured values, which are never twice the same.
_ADDED: Final = re.compile(
    r" \([^()]{1,300} the baseline of [0-9-]{10}\)|; acknowledged until [0-9-]{10}, which is over"
)
_MEASURED: Final = re.compile(
    r"(?<![0-9.])[0-9.]{1,12}(?= ?(?:°C|%)| (?:MHz|V|a minute|days?|hours?|minutes?|s)\b)"
    r"|(?<= at )[0-9.]{1,12}(?= W\b)|(?<=the baseline of )[0-9-]{10}"
)
_BY: Final = "; acknowledged by "


def can_be_acknowledged(finding: Finding) -> bool:
    return finding.status in _WORSE and finding.id != NEVER


def acknowledge(
    finding: Finding, *, who: str, at: str, because: str, until: str | None
) -> Acknowledgement:
    last, xid = finding.data.get(LAST), finding.data.get("xid")
    return Acknowledgement(
        id=finding.id,
        subject=finding.subject,
        status=finding.status,
        summary=finding.summary,
        who=who,
        at=at,
        because=because,
        until=until,
        last=last if isinstance(last, str) else None,
        xid=xid if isinstance(xid, int) else None,
    )


def with_acknowledgements(
    findings: Iterable[Finding], known: Sequence[Acknowledgement], today: str
) -> list[Finding]:
    """`today`: such as 2026-11-28. An acknowledged finding is information."""
    return [_judged(one, known, today) for one in findings]


def _judged(finding: Finding, known: Sequence[Acknowledgement], today: str) -> Finding:
    if not can_be_acknowledged(finding):
        return finding
    for one in known:
        if covers(one, finding):
            cited = (*finding.evidence, Evidence(SECTION, one.text))
            if one.until and one.until < today:
                summary = finding.summary + _OVER.format(one.until)
                return replace(finding, summary=summary, evidence=cited)
            data = {**finding.data, SECTION: {"who": one.who, "at": one.at, "until": one.until}}
            return replace(
                finding,
                status="info",
                summary=f"{finding.summary}; {one.text}",
                evidence=cited,
                fix=None,
                data=data,
            )
    return finding


def without_author(finding: Finding) -> Finding:
    """For others to read: neither who acknowledged it, nor that person's words."""
    if SECTION not in {one.section for one in finding.evidence}:
        return finding
    head, by, _ = finding.summary.partition(_BY)
    return replace(
        finding,
        summary=f"{head}; acknowledged" if by else finding.summary,
        evidence=tuple(one for one in finding.evidence if one.section != SECTION),
        data={name: value for name, value in finding.data.items() if name != SECTION},
    )


def covers(known: Acknowledgement, finding: Finding) -> bool:
    """It is what was acknowledged, and has got no worse; an incident has not come again."""
    if (known.id, known.subject) != (finding.id, finding.subject):
        return False
    if _WORSE[finding.status] > _WORSE.get(known.status, 0):
        return False
    last = finding.data.get(LAST)
    if known.last and isinstance(last, str):
        return known.xid == finding.data.get("xid") and last <= known.last
    return _state(known.summary) == _state(finding.summary)


def _state(summary: str) -> str:
    return _MEASURED.sub("N", _ADDED.sub("", summary))


def outlived(examined: Examined, findings: Iterable[Finding]) -> list[Finding]:
    """Incidents before the last preflight that passed, and copied, are information."""
    last = last_proof(examined)
    if last is None or last.proven is None or last.has_failed or not last.proven.level:
        return list(findings)
    return [_outlived(one, last.proven.at) for one in findings]


def _outlived(finding: Finding, passed_at: str) -> Finding:
    last = finding.data.get(LAST)
    if finding.status not in _WORSE or not isinstance(last, str) or last >= passed_at:
        return finding
    summary = f"{finding.summary}; preflight has passed since ({passed_at[:10]})"
    return replace(finding, status="info", summary=summary, fix=None)
