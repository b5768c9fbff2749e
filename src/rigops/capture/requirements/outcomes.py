"""What the judgements of backups have in common: failed, unknown, or by age."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.capture.document import Requirement
from rigops.capture.subject import age_text, state_line
from rigops.doctor.finding import Evidence
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from rigops.capture.subject import Subject


def judge_age(subject: Subject, name: str, what: str, at: str, fix: str) -> Requirement:
    days = subject.days_since(at)
    if days is None:
        return unknown(name, f"{what} is of {at}; the host's clock was not collected")
    is_old = days > subject.most_days
    most = f", the most is {age_text(subject.most_days)}" if is_old else ""
    return Requirement(
        id=name,
        status="fail" if is_old else "ok",
        summary=f"{what} is {age_text(days)} old{most}",
        evidence=state_line(at),
        fix=fix if is_old else "",
    )


def failed(name: str, summary: str, *, line: str = "", fix: str) -> Requirement:
    return Requirement(
        id=name, status="fail", summary=summary, evidence=state_line(line) if line else (), fix=fix
    )


def unknown(name: str, summary: str, fix: str = "capture it again, with root") -> Requirement:
    return Requirement(
        id=name,
        status="unknown",
        summary=summary,
        evidence=(Evidence(RIGOPS_STATE.name, summary),),
        fix=fix,
    )
