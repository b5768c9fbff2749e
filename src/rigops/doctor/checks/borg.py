"""Whether the declared backups are made, can be read, were tried, and have their key elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rigops import json_fields
from rigops.backup.ages import Moment
from rigops.concerns.borg import record
from rigops.concerns.borg.decide import UNIT, find_watched, read_back
from rigops.concerns.borg.record import BorgState
from rigops.concerns.borg.state import (
    AGE,
    DRILL,
    LOCK,
    REPOSITORY,
    UNPRUNED,
    judge_borg,
    judge_watched,
)
from rigops.concerns.state import State
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined, once
from rigops.doctor.finding import HOST, Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views import copies
from rigops.probe.sections.backups import SECTION as BACKUPS
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

_NEEDS: Final = (RIGOPS_STATE, BOOT)
_KEYS: Final = frozenset({"borg"})
_DRILL: Final = fix_by_hand("`rigops backup HOST --drill` does one now")
_NEWEST: Final = fix_by_hand(
    "run the command newest as root on the host: it has to print seconds since 1970, or a "
    "time such as 2026-11-25T06:00:00Z; `rigops apply` records it on the host"
)


@once
def _judged(examined: Examined) -> Finding | list[State]:
    declared = examined.spec.borg
    if declared is None:
        return Finding("skipped", "borg is not declared")
    if not declared.repository:
        return Finding("skipped", f"the backup of {declared.unit} is not managed by rigops")
    settings = read_back("", declared)

    def judge(text: str | None, at: Moment) -> list[State]:
        return [one._replace(subject=HOST) for one in judge_borg(settings, text, at)]

    return copies.judged(examined, UNIT, record.PATH, judge)


def _record(examined: Examined) -> BorgState | None:
    records = examined.snapshot[RIGOPS_STATE].or_empty.records
    return json_fields.readable(record.parse, records.get(record.PATH))


@Check(
    "borg.age",
    needs=(RIGOPS_STATE, BACKUPS, BOOT),
    needs_gpu=False,
    fixes=("apply", "hands"),
    keys=_KEYS,
)
def age(examined: Examined) -> Finding | list[Finding]:
    """The newest backup is new enough.

    It warns where the newest archive is older than twice the time between two runs, and fails six
    days later: after 2 and 8 days with a daily timer. It fails where there is none, and where the
    timer does not run. After a boot there are two hours to catch up. Before the first run after
    apply it is information. A date in the future is a warning. Of a backup that rigops does not
    manage, the time is that of the command `newest`, or else of the end of the declared unit's last
    run, while it runs of its start, and the limits are those of a daily timer. It is unknown
    without the host's clock.
    """
    declared = examined.spec.borg
    if declared is None or declared.managed:
        found = _judged(examined)
        stopped = copies.stopped_timer(examined, UNIT, found)
        return stopped or copies.findings(found, AGE, copies.journal(UNIT))
    answer = examined.snapshot[BACKUPS]
    if answer.value is None or answer.value.units is None or not answer.is_complete:
        return Finding("unknown", "the units of backups were not collected whole")
    watched = find_watched(declared, answer.value)
    one = judge_watched(watched, copies.moment(examined.snapshot))
    if unit := answer.value.unit_of(watched.unit):
        one = one._replace(now=unit.line)
    fix = fix_by_hand(f"see `journalctl -u {watched.unit}`")
    judged = copies.finding(one, fix, BACKUPS.name)
    has_none = judged.status == "unknown" and declared.newest and watched.at is None
    return replace(judged, fix=_NEWEST) if has_none else judged


@Check("borg.repository", needs=_NEEDS, needs_gpu=False, fixes=("apply", "hands"), keys=_KEYS)
def repository(examined: Examined) -> Finding | list[Finding]:
    """The repository could be opened, and its last check found no damage.

    Reads what the last run on the host wrote down. It fails where borg could not open the
    repository, or a check found damage. An absent disk and a server that does not answer are
    warnings, since borg.age judges the newest backup; so is a repository that was not checked for
    twice `check_every`. One that was never checked is information for as long after the first run,
    and borg.lock judges one that is locked. "To be healed" is a warning too: borg up to 1.2.4 wrote
    archives that newer versions accept only after `borg upgrade`; nothing is corrupt, and a repair
    would delete them.
    """
    noted = _record(examined)
    fix = noted.repository.fix if noted else ""
    advised = fix_by_hand(fix) if fix else copies.journal(UNIT)
    return copies.findings(_judged(examined), REPOSITORY, advised)


@Check("borg.key", needs=_NEEDS, needs_gpu=False, fixes=("apply", "hands"), keys=_KEYS)
def key(examined: Examined) -> Finding:
    """The key of the repository was exported to the vault of a machine that runs rigops.

    Encrypted archives can be read with the key and the passphrase alone, and the only other copy of
    the key is in the repository itself. It fails where no export of this repository's key is on
    record. The file in the vault is not looked at: `rigops plan` does that, and apply exports it
    again.
    """
    found, noted = _judged(examined), _record(examined)
    if isinstance(found, Finding):
        return copies.beside(found)
    if noted is None:
        return Finding("unknown", f"{record.PATH} cannot be read")
    if not noted.repository.id:
        return Finding("info", "there is no repository yet, and so no key")
    text = examined.snapshot[RIGOPS_STATE].or_empty.records.get(record.KEY_PATH)
    exported = json_fields.readable(record.parse_key, text)
    text = "`rigops apply` exports it to the vault of your machine"
    fix = Fix(kind="apply", concern="borg", is_declared=True, text=text)
    if exported is None:
        return Finding("fail", "the key of the repository was never exported", fix=fix)
    evidence = (Evidence(RIGOPS_STATE.name, exported.exported_at),)
    if exported.repository != noted.repository.id:
        return Finding("fail", "the key that was exported is of another repository", fix=fix)
    return Finding("ok", f"the key was exported on {exported.exported_at[:10]}", evidence)


@Check("borg.drill", needs=_NEEDS, needs_gpu=False, fixes=("apply", "hands"), keys=_KEYS)
def drill(examined: Examined) -> Finding | list[Finding]:
    """A sample of the newest backup was restored lately, without a difference.

    The monthly drill restores a sample and
    compares its digests. It fails where the last one found a difference or could not be done, and
    warns after 40 days without one, and where it found archives that are to be healed. Before the
    first one it is information for as long after the first run.
    """
    return copies.findings(_judged(examined), DRILL, _DRILL)


@Check("borg.lock", needs=_NEEDS, needs_gpu=False, fixes=("apply", "hands"), keys=_KEYS)
def lock(examined: Examined) -> Finding | list[Finding]:
    """No lock of another host blocks the repository.

    borg removes a lock that its own host left behind, and waits for any other: one that a crash
    left elsewhere blocks every backup silently. One of less than a day may be in use and is
    information; an older one fails. rigops never breaks a lock.
    """
    noted, declared = _record(examined), examined.spec.borg
    held = noted.repository.lock if noted else None
    text = (
        f"see on {held.host if held and held.host else 'each host that uses it'} that no borg runs "
        f"(`pgrep -a borg`); then `sudo borg break-lock {declared.repository if declared else ''}`"
    )
    return copies.findings(_judged(examined), LOCK, fix_by_hand(text))


@Check("borg.held", needs=_NEEDS, needs_gpu=False, fixes=("apply", "hands"), keys=_KEYS)
def held(examined: Examined) -> Finding | list[Finding]:
    """The last run removed all archives that `keep` no longer keeps.

    A run removes nothing while a declared path is missing or the clock is in doubt, and never more
    than half of the copies without consent. Copies that it left are a warning, with the reason.
    """
    return copies.findings(_judged(examined), UNPRUNED, copies.FREE)
