"""There is a backup elsewhere, it is new, and somebody has seen that it can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.capture.document import Requirement
from rigops.capture.requirements.outcomes import failed, judge_age, unknown
from rigops.capture.requirements.watched import judge_watched
from rigops.concerns.borg import record as borg_record
from rigops.concerns.borg.decide import is_place
from rigops.concerns.snapshots import record as snapshots_record

if TYPE_CHECKING:
    from rigops.capture.subject import Subject
    from rigops.concerns.borg.record import BorgState, Outcome
    from rigops.inventory.spec.model import Borg, Snapshots


def judge_backups(subject: Subject) -> list[Requirement]:
    """Of every engine that is declared; at least one has to be."""
    found: list[Requirement] = []
    if subject.managed_borg is not None:
        found += [_newest(subject, subject.managed_borg), _verified(subject)]
    if subject.watched_borg is not None:
        found += judge_watched(subject, subject.watched_borg)
    if subject.sent_snapshots is not None:
        found += _sent(subject, subject.sent_snapshots)
    if found:
        return found
    return [
        Requirement(
            id="backup",
            status="fail",
            summary="nothing is backed up to another disk or a server",
            fix="declare borg, or snapshots with send_to; then rigops apply and rigops backup",
        )
    ]


def last_verified(state: BorgState) -> Outcome | None:
    """The last check or drill, whichever came later."""
    every = [one for one in (state.last_check, state.last_drill) if one is not None]
    return max(every, key=lambda one: one.at, default=None)


def _newest(subject: Subject, declared: Borg) -> Requirement:
    back_up = f"rigops backup {subject.host}"
    state = subject.borg_state
    if subject.records is None:
        return unknown("borg.newest", "the records of rigops were not collected whole")
    if state is None and borg_record.PATH in subject.records:
        return unknown("borg.newest", f"{borg_record.PATH} cannot be read")
    if state is None or not is_place(state.repository.location, declared.repository):
        return failed("borg.newest", f"no backup to {declared.repository} yet", fix=back_up)
    if state.newest_at is None or state.repository.archives == 0:
        return failed("borg.newest", f"{declared.repository} has no backup", fix=back_up)
    return judge_age(subject, "borg.newest", "the newest backup", state.newest_at, back_up)


def _verified(subject: Subject) -> Requirement:
    drill = f"rigops backup {subject.host} --drill"
    state = subject.borg_state
    if state is None:
        return Requirement(
            id="borg.verified",
            status="unknown" if subject.records is None else "fail",
            summary="no backup was ever checked, nor restored to try it",
            fix=drill,
        )
    for what, outcome in (("drill", state.last_drill), ("check", state.last_check)):
        if outcome is not None and not outcome.is_ok:
            return failed(
                "borg.verified",
                f"the {what} of {outcome.at} found: {outcome.error or outcome.result}",
                line=f"{what} {outcome.at} {outcome.result}",
                fix=f"see `journalctl -u rigops-borg-drill -u rigops-borg` there, then {drill}",
            )
    last = last_verified(state)
    if last is None:
        return failed(
            "borg.verified", "no backup was ever checked, nor restored to try it", fix=drill
        )
    what = "drill" if last is state.last_drill else "check"
    return judge_age(
        subject, "borg.verified", f"the last verified backup, by {what},", last.at, drill
    )


def _sent(subject: Subject, declared: Snapshots) -> list[Requirement]:
    """A snapshot that arrived is whole, since btrfs checks what it receives."""
    name, fix = "snapshots.sent", f"rigops backup {subject.host}"
    state = subject.snapshots_state
    if subject.records is None:
        return [unknown(name, "the records of rigops were not collected whole")]
    if state is None and snapshots_record.PATH in subject.records:
        return [unknown(name, f"{snapshots_record.PATH} cannot be read")]
    target = state.target if state else None
    if target is None or target.name != declared.send_to:
        return [failed(name, f"nothing was sent to {declared.send_to} yet", fix=fix)]
    found = []
    for path in declared.subvolumes:
        at = target.newest_at.get(path)
        if at is None:
            one = failed(name, f"{declared.send_to} has no snapshot of it", fix=fix)
        else:
            what = f"the newest snapshot on {declared.send_to}"
            one = judge_age(subject, name, what, at, fix)
        found.append(_at(one, path))
    return found


def _at(one: Requirement, subject: str) -> Requirement:
    return Requirement(
        id=one.id,
        status=one.status,
        summary=one.summary,
        subject=subject,
        evidence=one.evidence,
        fix=one.fix,
    )
