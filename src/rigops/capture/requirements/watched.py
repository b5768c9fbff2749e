"""Backups of another tool, of which rigops knows the age alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.backup.utc import utc_text
from rigops.capture.requirements.outcomes import by_age, failed, unknown
from rigops.concerns.borg.decide import find_watched
from rigops.concerns.borg.state import judge_watched
from rigops.concerns.state import FAILING
from rigops.doctor.views.copies import moment
from rigops.probe.sections.backups import SECTION as BACKUPS

if TYPE_CHECKING:
    from rigops.capture.document import Requirement
    from rigops.capture.subject import Subject
    from rigops.inventory.spec.model import Borg


def judge_unmanaged(subject: Subject, declared: Borg) -> list[Requirement]:
    return [_newest(subject, declared), _verified(declared.unit or "")]


def newest_backup(subject: Subject, declared: Borg) -> str | None:
    """By its own command, or else by the end of its unit."""
    at = find_watched(declared, subject.snapshot[BACKUPS].or_empty).at
    return utc_text(at) if at else None


def _newest(subject: Subject, declared: Borg) -> Requirement:
    name, answer = declared.unit or "", subject.snapshot[BACKUPS]
    if answer.value is None or answer.value.units is None or not answer.is_complete:
        return unknown("backup.newest", "the units of backups were not collected whole")
    state = judge_watched(find_watched(declared, answer.value), moment(subject.snapshot))
    start = f"start {name} on the host"
    if state.now:
        return by_age(subject, "backup.newest", f"the newest backup of {name}", state.now, start)
    unit = answer.value.unit_of(name)
    state = state._replace(now=unit.line if unit else "", why=f"{name}: {state.why}")
    if state.status == FAILING:
        fix = f"see `journalctl -u {name}` on the host"
        return failed("backup.newest", state.why, line=state.now, fix=fix)
    return unknown("backup.newest", state.why, start)


def _verified(unit: str) -> Requirement:
    return unknown(
        "backup.verified",
        f"rigops only watches the age of the backups of {unit}",
        "see that they are on another disk, and restore a sample with the tool itself",
    )
