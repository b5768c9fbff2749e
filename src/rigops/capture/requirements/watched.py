"""Backups of another tool, of which rigops knows the age alone."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rigops.capture.requirements.outcomes import failed, judge_age, unknown
from rigops.probe.sections.backups import SECTION as BACKUPS

if TYPE_CHECKING:
    from rigops.capture.document import Requirement
    from rigops.capture.subject import Subject
    from rigops.inventory.spec.model import Borg


def judge_watched(subject: Subject, declared: Borg) -> list[Requirement]:
    return [_newest(subject, declared), _verified(declared.unit or "")]


def newest_backup(subject: Subject, declared: Borg) -> str | None:
    """By its own command, or else by the end of its unit."""
    found = subject.snapshot[BACKUPS].or_empty
    unit = found.unit_of(declared.unit or "")
    at = found.newest if declared.newest else (unit.finished if unit else None)
    if at is None:
        return None
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


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


def _verified(unit: str) -> Requirement:
    return unknown(
        "backup.verified",
        f"rigops only watches the age of the backups of {unit}",
        "see that they are on another disk, and restore a sample with the tool itself",
    )
