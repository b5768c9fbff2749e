"""Files, units, records and the self-check of rigops on the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from rigops.concerns.concern import Concern
from rigops.concerns.host_records import damaged_records, key_maker, torn_lines
from rigops.concerns.monitoring import NAME, record
from rigops.concerns.monitoring.record import LastSelfCheck
from rigops.concerns.registry import in_this_version
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views import driver_advice
from rigops.doctor.views.declared import start_unit
from rigops.doctor.views.driver_state import CONCERN
from rigops.errors import RigopsError
from rigops.inventory.spec import RigSpec
from rigops.json_fields import readable
from rigops.ownership.ownership import OwnedFile, Ownership, WantedFile
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.boot import Boot
from rigops.probe.sections.rigops_state import RECORD, Present, RigopsState
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.record.shell import JOURNAL

_AS_DECLARED = "`rigops plan -v` shows the difference; `rigops apply` puts it right"

_WHY_RECORDS = "Without its records rigops can undo nothing, and has no proofs."

_TIMER: Final = "rigops-self-check.timer"
_METRICS_TIMER: Final = "rigops-metrics.timer"
_LATE_S: Final = 2 * 86400  # it runs daily
_AFTER_BOOT_S: Final = 3 * 3600  # within which a missed run is caught up
_SHOWN: Final = 2
_GRAVE: Final = frozenset({"fail", "unknown"})
_WHY_SELF_CHECK: Final = (
    "Nobody hears of a lost card, a limit that is gone or a kernel without a module until the next "
    "`rigops doctor`."
)


@Check("rigops.files", needs=(RIGOPS_STATE,), needs_gpu=False, fixes=("apply", "hands"))
def files(examined: Examined) -> Finding | list[Finding]:
    """The files and units of rigops on the host are as it wrote them.

    Compares every file of the ownership record with its digest, owner and mode there. A file that
    is gone, that was changed, or that is a link, a directory or the like is a warning, and so are a
    unit of rigops that is masked and a drop-in that changes one.
    """
    answer = examined.snapshot[RIGOPS_STATE]
    state = answer.value
    if state is None or not answer.is_complete or not state.are_files_known:
        return Finding("unknown", "the files of rigops were not collected whole")
    if state.owned is None:
        return Finding("skipped", "rigops owns no file there")
    try:
        owned = Ownership.parse(state.owned)
    except RigopsError:
        return Finding("unknown", "the record of the files of rigops cannot be read")
    found = [*_changed_files(examined, owned, state), *_changed_units(state)]
    return found or Finding("ok", "the files of rigops are as it wrote them")


def _changed_files(examined: Examined, owned: Ownership, state: RigopsState) -> Iterator[Finding]:
    for path, file in sorted(owned.files.items()):
        there = state.present.get(path)
        if difference := _difference(file, there):
            fix = _fix_file(examined, file.concern)
            if there and there.kind:
                fix = fix_by_hand(f"move it away: sudo mv {path} {path}.away")
            yield Finding("warn", difference, subject=path, fix=fix)


def _fix_file(examined: Examined, concern: str) -> Fix:
    """Apply writes no file of what is not declared, and none of a driver that it cannot bring."""
    if concern == CONCERN and (reason := driver_advice.blocked(examined)):
        return fix_by_hand(reason)
    keys = {key.name for one in in_this_version() if one.name == concern for key in one.keys}
    if keys.isdisjoint(examined.spec.declared):
        return fix_by_hand(_AS_DECLARED)
    return Fix(kind="apply", concern=concern, is_declared=True, text=_AS_DECLARED)


def _difference(file: OwnedFile, there: Present | None) -> str:
    if there is None:
        return "the file is gone"
    if there.kind:
        return f"it is {there.kind}, and rigops wrote a file"
    if not file.has_ours(there):
        return "its content was changed"
    return WantedFile(file.concern, file.digest, file.mode).drift(there)


def _changed_units(state: RigopsState) -> Iterator[Finding]:
    for name, unit in sorted(state.units.items()):
        if unit.enabled == "masked":
            fix = fix_by_hand(f"sudo systemctl unmask {name}")
            yield Finding("warn", "the unit is masked", subject=name, fix=fix)
        for drop_in in unit.drop_ins:
            fix = fix_by_hand(f"sudo systemctl revert {name}")
            yield Finding("warn", f"{drop_in} changes the unit", subject=name, fix=fix)


@Check("rigops.records", needs=(RIGOPS_STATE,), needs_gpu=False, fixes=("apply", "hands"))
def records(examined: Examined) -> Finding | list[Finding]:
    """The records of rigops on the host are complete.

    The ownership record /var/lib/rigops/owned.json names every file that rigops wrote. Where it is
    lost, damaged or incomplete (files of rigops without a record show that), this fails, and plan
    and apply refuse the host. A key for backups that it does not name is a warning: apply records
    it. Other records that cannot be read are a warning, or a failure where something is not changed
    or undone until they can. Lines of the journal that a power cut tore are information.
    """
    answer = examined.snapshot[RIGOPS_STATE]
    if answer.value is None:
        return Finding("unknown", "the records of rigops were not collected")
    found = list(_judge_records(answer.value, examined.spec))
    if found:
        return found
    if not answer.is_complete:
        return Finding("unknown", "the records of rigops were not collected whole")
    if answer.value.owned is None and not answer.value.records:
        return Finding("skipped", "rigops has recorded nothing there")
    return Finding("ok", "the records of rigops are whole")


def _judge_records(state: RigopsState, spec: RigSpec) -> Iterator[Finding]:
    is_refused = not state.are_files_known
    if state.are_files_known:
        try:
            Ownership.from_state(state)
        except RigopsError as error:
            is_refused = True
            (problem,) = error.problems
            yield Finding(
                "fail",
                problem.message,
                subject=RECORD,
                why=_WHY_RECORDS,
                fix=fix_by_hand(problem.fix),
            )
    for path, trace in state.unrecorded.items():
        if trace.is_made and is_refused:
            continue
        if concern := key_maker(path):
            yield _unrecorded_key(path, concern, spec)
            continue
        yield Finding(
            "warn",
            "is where rigops writes and not in its record; its origin is unknown",
            subject=path,
            fix=fix_by_hand("remove it, or move it elsewhere"),
        )
    for damaged in damaged_records(state):
        yield Finding(
            "fail" if damaged.is_refused else "warn",
            f"cannot be read: {damaged.effect}",
            subject=damaged.path,
            why=_WHY_RECORDS,
            fix=fix_by_hand(damaged.fix),
        )
    if lines := torn_lines(state):
        text = f"{lines} of its last lines cannot be read; no other line is affected"
        yield Finding("info", text, subject=JOURNAL)


def _unrecorded_key(path: str, concern: Concern, spec: RigSpec) -> Finding:
    name = concern.name
    fix = fix_by_hand(f"declare {name} again, so that `rigops apply` records it")
    if concern.declared_keys(spec):
        text = "do not delete it: `rigops apply` records it"
        fix = Fix(kind="apply", concern=name, is_declared=True, text=text)
    summary = f"looks like rigops' key for {name}, and is not recorded: do not delete it"
    return Finding("warn", summary, subject=path, fix=fix)


@Check("rigops.selfcheck", needs=(RIGOPS_STATE, BOOT), needs_gpu=False, fixes=("apply", "hands"))
def self_check(examined: Examined) -> Finding | list[Finding]:
    """The daily self-check of the host runs, and found nothing.

    Reads the state of its timer, of that of `metrics`, and the record of its last run. A timer that
    is not active, a run that is more than two days old, and its failed and unknown checks are a
    warning; its own warnings are information, since they may be over by now. It is skipped where
    neither `notify` nor `metrics` is declared and the host has no such timer.
    """
    answer = examined.snapshot[RIGOPS_STATE]
    state = answer.value
    is_declared = examined.spec.notify is not None or examined.spec.metrics is not None
    if state is None or not answer.is_complete:
        return Finding("unknown", "the records of rigops were not collected whole")
    if _TIMER not in state.units and not is_declared:
        return Finding("skipped", "neither notify nor metrics is declared")
    timers = (_TIMER, _METRICS_TIMER) if examined.spec.metrics is not None else (_TIMER,)
    if stopped := [name for name in timers if not (name in state.units and state.units[name].runs)]:
        return [_stopped_timer(state, name, stopped, is_declared=is_declared) for name in stopped]
    text = state.records.get(record.PATH)
    if text is None:
        return Finding("info", "the self-check has not run yet; it runs once a day")
    last = readable(record.parse, text)
    if last is None:
        return Finding("unknown", f"{record.PATH} cannot be read")
    return _judge_self_check(last, examined.snapshot[BOOT].or_empty)


def _stopped_timer(
    state: RigopsState, name: str, stopped: Sequence[str], *, is_declared: bool
) -> Finding:
    """Apply starts none of them while one is masked."""
    timer = state.units.get(name)
    what = "is not installed" if timer is None else timer.in_words
    fixes = [start_unit(one, state.units.get(one), NAME) for one in (name, *stopped)]
    fix = next((one for one in fixes if not one.by_apply), fixes[0]) if is_declared else None
    why = _WHY_SELF_CHECK if name == _TIMER else "The textfile of `metrics` is not written."
    return Finding("warn", f"the timer {what}", subject=name, why=why, fix=fix)


def _judge_self_check(last: LastSelfCheck, boot: Boot) -> Finding:
    evidence = (Evidence(RIGOPS_STATE.name, last.at),)
    if boot.epoch_s is None:
        return Finding("unknown", f"ran {last.at}; the host's clock was not collected", evidence)
    age_s = boot.epoch_s - datetime.fromisoformat(last.at.replace("Z", "+00:00")).timestamp()
    has_had_time = boot.uptime_s is None or boot.uptime_s > _AFTER_BOOT_S
    if age_s > _LATE_S and has_had_time:
        fix = "sudo systemctl start rigops-self-check, and see journalctl -u rigops-self-check"
        return Finding(
            "warn",
            f"the last self-check was {int(age_s // 86400)} days ago",
            evidence,
            why=_WHY_SELF_CHECK,
            fix=fix_by_hand(fix),
        )
    ran = f"the self-check of {last.at[:10]}"
    if not last.problems:
        return Finding("ok", f"{ran} found nothing", evidence)
    count = len(last.problems)
    named = [f"{one.id} ({one.subject}): {one.summary}" for one in last.problems[:_SHOWN]]
    more = [f"{count - _SHOWN} more"] if count > _SHOWN else []
    is_grave = any(one.status in _GRAVE for one in last.problems)
    return Finding(
        "warn" if is_grave else "info",
        f"{ran} found {count} problem{'s' * (count > 1)}: {'; '.join([*named, *more])}",
        evidence,
        fix=fix_by_hand("see the findings of these ids here, or run self_check there"),
    )
