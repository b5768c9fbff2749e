"""A change since the baseline that another check fails or warns about is shown by that one."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rigops.doctor.check import Check
from rigops.doctor.checks.drift import drift
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Finding, Status
from rigops.doctor.views.changes import Change, changes

Found = list[tuple["Check", Finding]]

_OF_ALL_CARDS: Final = "gpu.count"


def told_once(examined: Examined, found: Found) -> Found:
    was = examined.baseline
    if was is None or all(check.id != drift.id for check, _ in found):
        return found
    told: dict[str, None] = {}
    findings = [*found]
    for change in changes(examined):
        at = next((at for at, (_, one) in enumerate(findings) if _tells(one, change)), None)
        if at is None:
            continue
        check, one = findings[at]
        status: Status = "fail" if "fail" in {one.status, change.status} else "warn"
        summary = f"{one.summary} {change.added(was.day)}"
        findings[at] = (check, replace(one, status=status, summary=summary))
        findings = [(each, its) for each, its in findings if not _is_of(its, change)]
        told[one.id] = None
    if told and all(check.id != drift.id for check, _ in findings):
        summary = f"what changed since the baseline of {was.day} is in {', '.join(told)}"
        check = next(check for check, _ in found if check.id == drift.id)
        findings.append((check, Finding("info", summary, id=drift.id)))
    return findings


def _tells(finding: Finding, change: Change) -> bool:
    is_about = finding.subject == change.subject or finding.id == _OF_ALL_CARDS
    return finding.id in change.checks and is_about and finding.status in {"fail", "warn"}


def _is_of(finding: Finding, change: Change) -> bool:
    is_same = (finding.subject, finding.data.get("what")) == (change.subject, change.what)
    return finding.id == drift.id and is_same
