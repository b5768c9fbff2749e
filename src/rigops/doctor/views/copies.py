"""Judgements of snapshots and backups, as findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Final

from rigops.backup.ages import Moment
from rigops.concerns.state import FAILING, HELD, IN_DOUBT, SELF_CHECK, State
from rigops.concerns.state import Status as StateStatus
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, Status, fix_by_hand
from rigops.doctor.views.declared import start_unit
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.snapshot import HostSnapshot

FREE: Final = fix_by_hand(
    "mount what is missing, or set the clock; to remove most copies at once, run "
    "`rigops backup HOST --prune-most`"
)
_STATUSES: Final[Mapping[StateStatus, Status]] = {**SELF_CHECK, HELD: "info"}
_OF_ALL: Final = ("borg.age", "snap.age")

Judge = Callable[["str | None", Moment], list[State]]


def moment(snapshot: HostSnapshot) -> Moment:
    """Not known where it is beyond all times."""
    boot = snapshot[BOOT].or_empty
    try:
        now = None if boot.epoch_s is None else datetime.fromtimestamp(boot.epoch_s, timezone.utc)
        return Moment(now, None if boot.uptime_s is None else timedelta(seconds=boot.uptime_s))
    except (ValueError, OverflowError):
        return Moment(None)


def judged(examined: Examined, unit: str, path: str, judge: Judge) -> Finding | list[State]:
    """`path`: of the record of the last run of `unit`. A finding: it is to be said of all."""
    answer = examined.snapshot[RIGOPS_STATE]
    if answer.value is None or not (answer.is_complete and answer.value.are_files_known):
        return Finding("unknown", "the records of rigops were not collected whole")
    text = answer.value.records.get(path)
    if text is None and f"{unit}.timer" not in answer.value.units:
        fix = start_unit(unit, None, _concern(unit))
        return Finding("warn", "the timer is not installed, and nothing ran yet", fix=fix)
    states = judge(text, moment(examined.snapshot))
    return states if len(states) > 1 else finding(states[0], journal(unit))


def stopped_timer(examined: Examined, unit: str, found: Finding | list[State]) -> Finding | None:
    """`found`: what is judged. A finding of all of them hides no timer that does not run."""
    timer = examined.snapshot[RIGOPS_STATE].or_empty.units.get(f"{unit}.timer")
    is_known = isinstance(found, list) or (timer is not None and found.status != "skipped")
    if not is_known or (timer is not None and timer.runs):
        return None
    what = "is not installed" if timer is None else timer.in_words
    fix = start_unit(f"{unit}.timer", timer, _concern(unit))
    return Finding("fail", f"the timer {what}", subject=f"{unit}.timer", fix=fix)


def _concern(unit: str) -> str:
    return unit.removeprefix("rigops-")


def finding(state: State, fix: Fix, section: str = RIGOPS_STATE.name) -> Finding:
    """`fix`: where a person has to look."""
    evidence = (Evidence(section, state.now),) if state.now else ()
    advised = fix if state.status in {IN_DOUBT, FAILING} else None
    status = _STATUSES[state.status]
    return Finding(status, state.text, evidence, subject=state.subject, fix=advised)


def findings(found: Finding | list[State], check: str, fix: Fix) -> Finding | list[Finding]:
    if isinstance(found, Finding):
        return found if check in _OF_ALL else beside(found)
    return [finding(one, fix) for one in found if one.check == check]


def beside(found: Finding) -> Finding:
    """Of another check than that of the age, which alone says what is to be said of all."""
    if found.status in {"unknown", "skipped"}:
        return found
    return Finding("skipped", f"nothing to judge: {found.summary}")


def journal(unit: str) -> Fix:
    text = f"see `journalctl -u {unit}`, then `sudo systemctl start {unit}`"
    return fix_by_hand(text)
