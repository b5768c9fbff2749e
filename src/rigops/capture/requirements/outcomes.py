"""Requirements that are met, are not, or are unknown; of backups by their age."""

from __future__ import annotations

from datetime import timedelta

from rigops.backup.ages import judge_age, span
from rigops.backup.utc import read_utc
from rigops.capture.document import Requirement
from rigops.capture.subject import Subject, state_line
from rigops.concerns.state import AS_DECLARED, FAILING, UNKNOWN, State
from rigops.doctor.finding import HOST, Evidence
from rigops.doctor.views.copies import moment
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE


def by_age(subject: Subject, name: str, what: str, at: str, fix: str) -> Requirement:
    """Neither the declaration nor a boot counts here: only how old it may be for a wipe."""
    when, most = read_utc(at), timedelta(days=subject.most_days)
    if when is None:
        return unknown(name, f"{what} is of {at}, which is no time")
    known = moment(subject.snapshot)._replace(uptime=None)
    status, summary = judge_age(what, when, known, most, most)
    if status == FAILING:
        return failed(name, f"{summary}, the most is {span(most)}", state_line(at), fix=fix)
    if status != AS_DECLARED:
        return unknown(name, summary, "capture it again, with the clock right")
    return ok(name, summary, state_line(at))


def ok(
    name: str, summary: str, evidence: tuple[Evidence, ...] = (), *, subject: str = HOST
) -> Requirement:
    return Requirement(id=name, status="ok", summary=summary, subject=subject, evidence=evidence)


def failed(
    name: str,
    summary: str,
    evidence: tuple[Evidence, ...] = (),
    *,
    subject: str = HOST,
    fix: str,
) -> Requirement:
    return Requirement(
        id=name, status="fail", summary=summary, subject=subject, evidence=evidence, fix=fix
    )


def unknown(name: str, summary: str, fix: str = "capture it again, with root") -> Requirement:
    return Requirement(
        id=name,
        status="unknown",
        summary=summary,
        evidence=(Evidence(RIGOPS_STATE.name, summary),),
        fix=fix,
    )


def by_state(state: State, name: str, fix: str) -> Requirement | None:
    """Where nothing is to be said of it, whatever its age is."""
    if state.status == UNKNOWN:
        return unknown(name, state.why)
    if state.status == FAILING:
        return failed(name, state.why, state_line(state.now), fix=fix)
    return None
