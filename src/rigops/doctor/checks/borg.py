"""Whether the declared backups are made, can be read, were tried, and have their key elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Final, cast

from rigops import json_fields
from rigops.backup.ages import (
    DRILL_MOST,
    OTHERS_PAUSE,
    judge_age,
    longest_unchecked,
    time_between_runs,
)
from rigops.backup.pruning import CLOCK_STEP
from rigops.backup.retention import keep_text
from rigops.concerns.borg import record
from rigops.concerns.borg.decide import CHECK_EVERY_DAYS, SCHEDULE, UNIT, is_place
from rigops.concerns.borg.record import BorgState
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.doctor.views import copies
from rigops.probe.sections.backups import SECTION as BACKUPS
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from rigops.doctor.finding import Status
    from rigops.inventory.spec.model import Borg
    from rigops.probe.sections.backups import Backups

_TIMER: Final = f"{UNIT}.timer"
_LOCK_FAIL_S: Final = copies.DAY_S
_UNDECLARED: Final = "borg is not declared"
_KEYS: Final = frozenset({"borg"})
_JOURNAL: Final = Fix(
    kind="hands", text=f"see `journalctl -u {UNIT}`, then `sudo systemctl start {UNIT}`"
)
_DRILL: Final = Fix(kind="hands", text="`rigops backup HOST --drill` does one now")
_APPLY: Final = Fix(kind="hands", text="`rigops apply` installs and starts it")

_Judge = Callable[[Examined, "Borg", BorgState], Finding]


def _of_the_record(judge: _Judge) -> Callable[[Examined], Finding]:
    """Called where borg is declared and managed, and the record of the last run can be read."""

    @wraps(judge)
    def judged(examined: Examined) -> Finding:
        declared = examined.spec.borg
        if declared is None or not declared.repository:
            known = declared.unit if declared else None
            what = f"the backup of {known} is not managed by rigops" if known else _UNDECLARED
            return Finding("skipped", what)
        answer = examined.snapshot[RIGOPS_STATE]
        if answer.value is None or not (answer.is_complete and answer.value.are_files_known):
            return Finding("unknown", "the records of rigops were not collected whole")
        text = answer.value.records.get(record.PATH)
        if text is None:
            return _not_run_yet(has_timer=_TIMER in answer.value.units)
        state = json_fields.readable(record.parse, text)
        if state is None:
            return Finding("unknown", f"{record.PATH} cannot be read")
        if not is_place(state.repository.location, declared.repository):
            summary = f"no backup to {declared.repository} yet: no run since it was declared"
            return Finding("warn", summary, fix=_JOURNAL)
        return judge(examined, declared, state)

    return judged


def _not_run_yet(*, has_timer: bool) -> Finding:
    if has_timer:
        return Finding("info", "no backup was due yet: the timer has not run")
    return Finding("warn", "borg is declared, and nothing backs up yet", fix=_APPLY)


@_of_the_record
def _managed_age(examined: Examined, declared: Borg, state: BorgState) -> Finding:
    answer = examined.snapshot[RIGOPS_STATE].value
    timer = answer.units.get(_TIMER) if answer else None
    if timer is None or timer.active != "active":
        what = "is not installed" if timer is None else f"is {timer.active or 'unknown'}"
        return Finding("fail", f"the timer {what}", subject=_TIMER, fix=_APPLY)
    if state.newest_at is None:
        return Finding("fail", "there is no backup", fix=_JOURNAL)
    evidence = (Evidence(RIGOPS_STATE.name, state.newest_at),)
    age_s = copies.age_s(examined, state.newest_at)
    if age_s is None:
        summary = f"newest backup {state.newest_at}; the host's clock was not collected"
        return Finding("unknown", summary, evidence)
    if age_s < -CLOCK_STEP.total_seconds():
        summary = f"the newest backup is dated in the future ({state.newest_at}): a clock is wrong"
        return Finding("warn", summary, evidence, fix=_JOURNAL)
    uptime_s = examined.snapshot[BOOT].or_empty.uptime_s
    uptime = None if uptime_s is None else timedelta(seconds=uptime_s)
    between = time_between_runs(declared.schedule or SCHEDULE, keep_text(declared.keep))
    status = cast("Status", judge_age(timedelta(seconds=age_s), between, uptime))
    summary = f"the newest backup is {copies.span(age_s)} old"
    return Finding(status, summary, evidence, fix=None if status == "ok" else _JOURNAL)


@Check(
    "borg.age",
    needs=(RIGOPS_STATE, BACKUPS, BOOT),
    needs_gpu=False,
    fixes=("hands",),
    keys=_KEYS,
)
def age(examined: Examined) -> Finding:
    """The newest backup is new enough.

    It warns where the newest archive is older than twice the time between two runs, and fails six
    days later: after 2 and 8 days with a daily timer. It fails where there is none, and where the
    timer does not run. After a boot there are two hours to catch up. Of a backup that rigops does
    not manage it is what the command `newest` prints, or else when the declared unit ended with
    success last, and the limits are those of a daily timer. It is unknown without the host's clock.
    """
    declared = examined.spec.borg
    if declared is None or declared.managed:
        return _managed_age(examined)
    answer = examined.snapshot[BACKUPS]
    if answer.value is None or answer.value.units is None or not answer.is_complete:
        return Finding("unknown", "the units of backups were not collected whole")
    return _others_age(declared, answer.value)


def _others_age(declared: Borg, found: Backups) -> Finding:
    name = declared.unit or ""
    see = Fix(kind="hands", text=f"see `journalctl -u {name}`")
    unit = found.unit_of(name)
    if unit is None or unit.load in {"not-found", "masked"}:
        what = "was not found" if unit is None else f"is {unit.load}"
        return Finding("fail", f"the declared unit {what}", subject=name, fix=see)
    evidence = (Evidence(BACKUPS.name, unit.line),)
    if unit.result not in {None, "success"}:
        summary = f"the last run failed: {unit.result}"
        return Finding("fail", summary, evidence, subject=name, fix=see)
    at = found.newest if declared.newest else unit.finished or unit.last_trigger
    if at is None or found.now is None:
        return _unknown_age(declared, evidence)
    span = copies.span(found.now - at)
    summary = (
        f"the newest backup is {span} old" if declared.newest else f"the last run was {span} ago"
    )
    age = timedelta(seconds=found.now - at)
    status = cast("Status", judge_age(age, OTHERS_PAUSE, None))
    return Finding(status, summary, evidence, subject=name, fix=None if status == "ok" else see)


def _unknown_age(declared: Borg, evidence: tuple[Evidence, ...]) -> Finding:
    if not declared.newest:
        summary = "when it ran last is unknown: not since the boot"
        return Finding("unknown", summary, evidence, subject=declared.unit or "")
    text = (
        "run it as root on the host: it has to print seconds since 1970, or a time such as "
        "2026-11-25T06:00:00Z; `rigops apply` lets the host know of it"
    )
    return Finding(
        "unknown",
        "the command newest printed no time",
        evidence,
        subject=declared.unit or "",
        fix=Fix(kind="hands", text=text),
    )


@Check(
    "borg.repository",
    needs=(RIGOPS_STATE, BOOT),
    needs_gpu=False,
    fixes=("hands",),
    keys=_KEYS,
)
@_of_the_record
def repository(examined: Examined, declared: Borg, state: BorgState) -> Finding:
    """The repository could be opened, and its last check found no damage.

    Reads what the last run on the host wrote down. It fails where borg could not open the
    repository, or a check found damage. A disk that is absent and a server that does not answer are
    warnings, since the age of the newest backup is judged apart; so is a repository that was not
    checked for twice `check_every`. "To be healed" is a warning too: borg up to 1.2.4 wrote
    archives that newer versions accept only after `borg upgrade`; nothing is corrupt, and a repair
    would delete them.
    """
    found = state.repository
    fix = Fix(kind="hands", text=found.fix) if found.fix else _JOURNAL
    why = f": {found.error}" if found.error else ""
    evidence = (Evidence(RIGOPS_STATE.name, found.error or found.state),)
    summary = f"{declared.repository}: {found.state}{why}"
    if found.state == "failed":
        return Finding("fail", summary, evidence, fix=fix)
    checked = state.last_check
    if checked is not None and not checked.is_ok:
        damage = f"{declared.repository}: the check of {checked.at[:10]} found damage"
        return Finding("fail", f"{damage}: {checked.error or checked.result}", fix=fix)
    if found.state in {"absent", "unreachable", "to be healed"}:
        return Finding("warn", summary, evidence, fix=fix)
    if found.state not in {"ok", "locked"}:
        return Finding("unknown", summary, evidence)
    every_days = declared.check_every_days or CHECK_EVERY_DAYS
    age_s = copies.age_s(examined, checked.at) if checked else None
    if age_s is not None and age_s > longest_unchecked(every_days).total_seconds():
        span = copies.span(age_s)
        summary = f"{declared.repository}: not checked for {span}, declared {every_days} days"
        return Finding("warn", summary, evidence, fix=_JOURNAL)
    count = "" if found.archives is None else f", {found.archives} archives"
    when = f", checked {checked.at[:10]}" if checked else ", not checked yet"
    return Finding("ok", f"{declared.repository}: {found.state}{count}{when}", evidence)


@Check("borg.key", needs=(RIGOPS_STATE,), needs_gpu=False, fixes=("hands",), keys=_KEYS)
@_of_the_record
def key(examined: Examined, _: Borg, state: BorgState) -> Finding:
    """The key of the repository was exported to the vault of a machine that runs rigops.

    Encrypted archives can be read with the key and the passphrase alone, and the only other copy of
    the key is in the repository itself. It fails where no export of this repository's key is on
    record. The file in the vault is not looked at: `rigops plan` does that, and apply exports it
    again.
    """
    if not state.repository.id:
        return Finding("info", "there is no repository yet, and so no key")
    answer = examined.snapshot[RIGOPS_STATE].value
    text = answer.records.get(record.KEY_PATH) if answer else None
    noted = json_fields.readable(record.parse_key, text)
    fix = Fix(kind="hands", text="`rigops apply` exports it to the vault of your machine")
    if noted is None:
        return Finding("fail", "the key of the repository was never exported", fix=fix)
    evidence = (Evidence(RIGOPS_STATE.name, noted.exported_at),)
    if noted.repository != state.repository.id:
        return Finding("fail", "the key that was exported is of another repository", fix=fix)
    return Finding("ok", f"the key was exported on {noted.exported_at[:10]}", evidence)


@Check("borg.drill", needs=(RIGOPS_STATE, BOOT), needs_gpu=False, fixes=("hands",), keys=_KEYS)
@_of_the_record
def drill(examined: Examined, _: Borg, state: BorgState) -> Finding:
    """A sample of the newest backup was restored lately, and was as it had been.

    A backup that was never restored is no backup yet. The monthly drill restores a sample and
    compares its digests. It fails where the last one found a difference or could not be done, and
    warns after 40 days without one.
    """
    found = state.last_drill
    if found is None:
        return Finding("warn", "no backup was ever restored to try it", fix=_DRILL)
    evidence = (Evidence(RIGOPS_STATE.name, f"{found.at} {found.result}"),)
    if not found.is_ok:
        summary = f"the drill of {found.at[:10]} failed: {found.error or found.result}"
        return Finding("fail", summary, evidence, fix=_JOURNAL)
    files = "" if found.files is None else f" with {found.files} files"
    age_s = copies.age_s(examined, found.at)
    if age_s is None:
        summary = f"the drill of {found.at[:10]} passed; the host's clock was not collected"
        return Finding("unknown", summary, evidence)
    if age_s > DRILL_MOST.total_seconds():
        return Finding("warn", f"the last drill was {copies.span(age_s)} ago", evidence, fix=_DRILL)
    return Finding("ok", f"the drill of {found.at[:10]} passed{files}", evidence)


@Check("borg.lock", needs=(RIGOPS_STATE, BOOT), needs_gpu=False, fixes=("hands",), keys=_KEYS)
@_of_the_record
def lock(examined: Examined, declared: Borg, state: BorgState) -> Finding:
    """No lock of another host blocks the repository.

    borg removes a lock that its own host left behind, and waits for any other: one that a crash
    left elsewhere blocks every backup without a word. One of less than a day may be at work and is
    information; an older one fails. rigops never breaks a lock.
    """
    found = state.repository.lock
    if found is None:
        return Finding("ok", "the repository is not locked")
    later_s = copies.age_s(examined, state.at)
    age_s = found.age_s + (later_s or 0 if state.repository.state == "locked" else 0)
    who = f"locked by {found.host} (pid {found.pid}) for {copies.span(age_s)}"
    evidence = (Evidence(RIGOPS_STATE.name, f"{found.host} {found.pid}"),)
    if age_s < _LOCK_FAIL_S:
        return Finding("info", who, evidence)
    text = (
        f"see on {found.host} that no borg runs (`pgrep -a borg`); then "
        f"`sudo borg break-lock {declared.repository}`"
    )
    return Finding("fail", who, evidence, fix=Fix(kind="hands", text=text))


@Check("borg.held", needs=(RIGOPS_STATE,), needs_gpu=False, fixes=("hands",), keys=_KEYS)
@_of_the_record
def held(_: Examined, __: Borg, state: BorgState) -> Finding:
    """The last run removed all archives that `keep` no longer keeps.

    A run removes nothing while a declared path is missing or the clock is in doubt, and never more
    than half of the copies without consent. What it left is a warning, with the reason.
    """
    return copies.held_back("archive", state.held)
