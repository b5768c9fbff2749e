"""There is a backup elsewhere, it is new, and a test showed that it can be read."""

from __future__ import annotations

from dataclasses import replace

from rigops.backup.utc import utc_text
from rigops.capture.document import Requirement
from rigops.capture.requirements.outcomes import by_age, by_state, failed, unknown
from rigops.capture.subject import Subject, state_line
from rigops.concerns.borg import record as borg_record
from rigops.concerns.borg.decide import find_watched
from rigops.concerns.borg.decide import read_back as borg_settings
from rigops.concerns.borg.record import BorgState, Outcome
from rigops.concerns.borg.state import REPOSITORY, judge_borg, judge_watched
from rigops.concerns.snapshots import record as snapshots_record
from rigops.concerns.snapshots.decide import read_back as snapshot_settings
from rigops.concerns.snapshots.state import TARGET, judge_snapshots
from rigops.concerns.state import FAILING
from rigops.doctor.views.copies import moment
from rigops.inventory.spec.model import Borg, Snapshots
from rigops.probe.sections.backups import SECTION as BACKUPS

_NOT_COLLECTED = "the records of rigops were not collected whole"


def judge_backups(subject: Subject) -> list[Requirement]:
    """Of every engine that is declared; at least one has to be."""
    found: list[Requirement] = []
    if subject.managed_borg is not None:
        found += [_newest(subject, subject.managed_borg), _verified(subject)]
    if subject.watched_borg is not None:
        watched = unknown(
            "backup.verified",
            f"rigops only watches the age of the backups of {subject.watched_borg.unit}",
            "see that they are on another disk, and restore a sample with the tool itself",
        )
        found += [_newest_watched(subject, subject.watched_borg), watched]
    if subject.sent_snapshots is not None:
        found += _sent(subject, subject.sent_snapshots)
    if found:
        return found
    return [
        failed(
            "backup",
            "nothing is backed up to another disk or a server",
            fix="declare borg, or snapshots with send_to; then rigops apply and rigops backup",
        )
    ]


def last_verified(state: BorgState) -> Outcome | None:
    """The last check or drill, whichever came later."""
    every = [one for one in (state.last_check, state.last_drill) if one is not None]
    return max(every, key=lambda one: one.at, default=None)


def _newest(subject: Subject, declared: Borg) -> Requirement:
    if subject.records is None:
        return unknown("borg.newest", _NOT_COLLECTED)
    settings, text = borg_settings("", declared), subject.records.get(borg_record.PATH)
    states = judge_borg(settings, text, moment(subject.snapshot))
    age, repository = states[0], next((one for one in states if one.check == REPOSITORY), states[0])
    fix = f"rigops backup {subject.host}"
    if wrong := by_state(repository, "borg.newest", fix):
        return wrong
    if not age.now:
        return failed("borg.newest", f"{declared.repository}: {age.why}", fix=fix)
    return by_age(subject, "borg.newest", "the newest backup", age.now, fix)


def _verified(subject: Subject) -> Requirement:
    drill = f"rigops backup {subject.host} --drill"
    state = subject.borg_state
    never = "no backup was ever checked, nor restored to try it"
    if state is None and (subject.records is None or borg_record.PATH in subject.records):
        return unknown("borg.verified", "when a backup was tried last is not known")
    if state is None:
        return failed("borg.verified", never, fix=drill)
    for what, outcome in (("drill", state.last_drill), ("check", state.last_check)):
        if outcome is not None and not outcome.is_ok:
            return failed(
                "borg.verified",
                f"the {what} of {outcome.at} found: {outcome.error or outcome.result}",
                state_line(f"{what} {outcome.at} {outcome.result}"),
                fix=f"see `journalctl -u rigops-borg-drill -u rigops-borg` there, then {drill}",
            )
    last = last_verified(state)
    if last is None:
        return failed("borg.verified", never, fix=drill)
    what = "drill" if last is state.last_drill else "check"
    return by_age(subject, "borg.verified", f"the last verified backup, by {what},", last.at, drill)


def _sent(subject: Subject, declared: Snapshots) -> list[Requirement]:
    """A snapshot that arrived is whole, since btrfs checks what it receives."""
    name, fix = "snapshots.sent", f"rigops backup {subject.host}"
    if subject.records is None:
        return [unknown(name, _NOT_COLLECTED)]
    settings, text = snapshot_settings("", declared), subject.records.get(snapshots_record.PATH)
    states = judge_snapshots(settings, text, moment(subject.snapshot))
    there = next((one for one in states if one.check == TARGET), states[0])
    target = subject.snapshots_state.target if subject.snapshots_state else None
    wrong = by_state(there, name, fix)
    if wrong and not (target and target.state in {"absent", "unreachable"}):
        return [wrong]
    if target is None or target.name != declared.send_to:
        return [failed(name, f"nothing was sent to {declared.send_to} yet", fix=fix)]
    found = []
    for path in declared.subvolumes:
        at = target.newest_at.get(path)
        if at is None:
            one = failed(name, f"{declared.send_to} has no snapshot of it", fix=fix)
        else:
            one = by_age(subject, name, f"the newest snapshot on {declared.send_to}", at, fix)
        found.append(replace(one, subject=path))
    return found


def newest_backup(subject: Subject, declared: Borg) -> str | None:
    """By its own command, or else by the end of its unit."""
    watched = find_watched(declared, subject.snapshot[BACKUPS].or_empty)
    return utc_text(watched.at) if watched.at and not watched.is_running else None


def _newest_watched(subject: Subject, declared: Borg) -> Requirement:
    name, answer = declared.unit or "", subject.snapshot[BACKUPS]
    if answer.value is None or answer.value.units is None or not answer.is_complete:
        return unknown("backup.newest", "the units of backups were not collected whole")
    watched = find_watched(declared, answer.value)
    state = judge_watched(watched, moment(subject.snapshot))
    start = f"start {name} on the host"
    if state.now:
        found = by_age(subject, "backup.newest", f"the newest backup of {name}", state.now, start)
        if found.status != "ok" or not watched.is_running:
            return found
        why = f"{name} runs, and how it ends is not known"
        return unknown("backup.newest", why, "capture it again once it has ended")
    unit = answer.value.unit_of(name)
    state = state._replace(now=unit.line if unit else "", why=f"{name}: {state.why}")
    if state.status == FAILING:
        fix = f"see `journalctl -u {name}` on the host"
        return failed("backup.newest", state.why, state_line(state.now), fix=fix)
    return unknown("backup.newest", state.why, start)
