"""Whether the host looks after itself, and what it found last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from rigops.concerns.monitoring import NAME, record
from rigops.doctor.check import Check
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.doctor.views import owned_units
from rigops.json_fields import readable
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from rigops.concerns.monitoring.record import LastSelfCheck
    from rigops.doctor.examined import Examined
    from rigops.probe.sections.boot import Boot
    from rigops.probe.sections.rigops_state import RigopsState

_TIMER: Final = "rigops-self-check.timer"
_METRICS: Final = "rigops-metrics.timer"
_LATE_S: Final = 2 * 86400  # it runs daily
_AFTER_BOOT_S: Final = 3 * 3600  # within which a missed run is caught up
_SHOWN: Final = 2
_GRAVE: Final = frozenset({"fail", "unknown"})
_WHY: Final = (
    "Nobody hears of a lost card, a limit that is gone or a kernel without a module until the next "
    "`rigops doctor`."
)


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
    timers = (_TIMER, _METRICS) if examined.spec.metrics is not None else (_TIMER,)
    if stopped := [name for name in timers if not _runs(state, name)]:
        return [_stopped(state, name, stopped, is_declared=is_declared) for name in stopped]
    text = state.records.get(record.PATH)
    if text is None:
        return Finding("info", "the self-check has not run yet; it runs once a day")
    last = readable(record.parse, text)
    if last is None:
        return Finding("unknown", f"{record.PATH} cannot be read")
    return _judge(last, examined.snapshot[BOOT].or_empty)


def _runs(state: RigopsState, name: str) -> bool:
    return name in state.units and state.units[name].runs


def _stopped(
    state: RigopsState, name: str, stopped: Sequence[str], *, is_declared: bool
) -> Finding:
    """Apply starts none of them while one is masked."""
    timer = state.units.get(name)
    what = "is not installed" if timer is None else timer.in_words
    fixes = [owned_units.start(one, state.units.get(one), NAME) for one in (name, *stopped)]
    fix = next((one for one in fixes if not one.by_apply), fixes[0]) if is_declared else None
    why = _WHY if name == _TIMER else "The textfile of `metrics` is not written."
    return Finding("warn", f"the timer {what}", subject=name, why=why, fix=fix)


def _judge(last: LastSelfCheck, boot: Boot) -> Finding:
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
            why=_WHY,
            fix=Fix(kind="hands", text=fix),
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
        fix=Fix(kind="hands", text="see the findings of these ids here, or run self_check there"),
    )
