"""Backups of another tool: the unit's last run, and what the last drill of rigops found."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rigops.capture.requirements.outcomes import failed, judge_age, unknown
from rigops.concerns.borg import record as borg_record
from rigops.probe.sections.backups import SECTION as BACKUPS

if TYPE_CHECKING:
    from rigops.capture.document import Requirement
    from rigops.capture.subject import Subject
    from rigops.inventory.spec.model import Borg


def judge_watched(subject: Subject, declared: Borg) -> list[Requirement]:
    return [_newest(subject, declared), _verified(subject, declared)]


def newest_backup(subject: Subject, declared: Borg) -> str | None:
    """By its own command, or else by the end of its unit, or by the last drill if that saw one."""
    found = subject.snapshot[BACKUPS].or_empty
    unit = found.unit_of(declared.unit or "")
    at = found.newest if declared.newest else (unit.finished if unit else None)
    text = None
    if at is not None:
        text = datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    state = subject.watched_state
    return max(filter(None, (text, state.newest_at if state else None)), default=None)


def _newest(subject: Subject, declared: Borg) -> Requirement:
    name, answer = declared.unit or "", subject.snapshot[BACKUPS]
    if answer.value is None or answer.value.units is None or not answer.is_complete:
        return unknown("backup.newest", "the units of backups were not collected whole")
    unit, see = answer.value.unit_of(name), f"see `journalctl -u {name}` on the host"
    if unit is None or unit.load in {"not-found", "masked"}:
        what = "was not found" if unit is None else f"is {unit.load}"
        return failed("backup.newest", f"the declared unit {name} {what}", fix=see)
    if unit.result not in {None, "success"}:
        summary = f"the last run of {name} failed: {unit.result}"
        return failed("backup.newest", summary, line=unit.line, fix=see)
    at = newest_backup(subject, declared)
    start = f"start {name} on the host"
    if at is None:
        return unknown("backup.newest", f"when {name} backed up last is unknown", start)
    return judge_age(subject, "backup.newest", f"the newest backup of {name}", at, start)


def _verified(subject: Subject, declared: Borg) -> Requirement:
    name, unit, state = "backup.verified", declared.unit or "", subject.watched_state
    drill = f"rigops backup {subject.host} --drill"
    if subject.records is None:
        return unknown(name, "the records of rigops were not collected whole")
    if state is None:
        if borg_record.UNMANAGED_PATH in subject.records and subject.noted_drill is None:
            return unknown(name, f"{borg_record.UNMANAGED_PATH} cannot be read", drill)
        return failed(name, f"no backup of {unit} was ever restored to try it", fix=drill)
    last = state.last_drill
    if last is None:
        return unknown(
            name,
            f"{unit} starts {state.tool}, whose backups rigops cannot try",
            f"restore a sample with {state.tool} itself, and wipe only if it is right",
        )
    if not last.is_ok:
        return failed(
            name,
            f"the drill of {last.at} found: {last.error or last.result}",
            line=f"drill {last.at} {last.result}",
            fix=f"see `journalctl -u {unit}` on the host, then {drill}",
        )
    what = f"the last verified backup of {unit}, by drill,"
    return judge_age(subject, name, what, last.at, drill)
