"""Whether the guard that acts on heat is there, runs, and what it does now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops import json_fields
from rigops.concerns.thermal_guard import NAME, record
from rigops.concerns.thermal_guard.decide import UNIT, unwatchable
from rigops.doctor.check import Check
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.doctor.views import owned_units
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from rigops.concerns.thermal_guard.record import GuardState
    from rigops.doctor.examined import Examined
    from rigops.inventory.spec.model import ThermalLimit
    from rigops.probe.sections.rigops_state import OwnedUnit

LATE_S: Final = 90.0  # it writes its record every 20 s

_FAILS: Final = frozenset({"stop-jobs", "poweroff"})


@Check(
    "tmp.guard",
    needs=(RIGOPS_STATE, BOOT, SMI),
    fixes=("apply", "hands"),
    keys=frozenset({"thermal_limit"}),
)
def guard(examined: Examined) -> Finding:
    """The declared thermal guard runs, and takes no step.

    Looks at its service and at the record that it writes every 20 seconds. It fails where
    `thermal_limit` is declared and the service does not run or has written nothing for 90 seconds,
    where the cards do not report what is declared, and while the guard stops jobs or powers off;
    lower power and a message are a warning, with the reason. It is skipped without a declaration.
    """
    limit = examined.spec.thermal_limit
    if limit is None:
        return Finding("skipped", "thermal_limit is not declared")
    for reason in unwatchable(limit, examined.snapshot[SMI].or_empty):
        what, _, fix = reason.partition(". fix: ")
        return Finding("fail", what, fix=Fix(kind="hands", text=fix))
    answer = examined.snapshot[RIGOPS_STATE]
    state = answer.value
    if state is None or not state.are_files_known:
        return Finding("unknown", "the files and services of rigops were not collected")
    unit = state.units.get(UNIT)
    if unit is None and not answer.is_complete:
        return Finding("unknown", "the services of rigops were not collected whole")
    return _judge(unit, limit) or _running(examined, state.records.get(record.PATH, ""))


def _judge(unit: OwnedUnit | None, limit: ThermalLimit) -> Finding | None:
    if unit is None:
        return Finding("warn", "the thermal guard is not on the host yet", fix=_start(None, limit))
    if not unit.runs:
        summary = f"the thermal guard does not run: {UNIT} {unit.in_words}"
        return Finding("fail", summary, fix=_start(unit, limit))
    return None


def _running(examined: Examined, text: str) -> Finding:
    state = json_fields.readable(record.parse, text)
    if state is None:
        return Finding("unknown", "the thermal guard's record cannot be read")
    boot = examined.snapshot[BOOT].value
    age_s = boot.uptime_s - state.uptime_s if boot and boot.uptime_s is not None else 0.0
    if age_s > LATE_S:
        return Finding(
            "fail",
            f"the thermal guard hangs: it has written nothing for {age_s:.0f} s",
            fix=Fix(kind="hands", text=f"sudo systemctl restart {UNIT}"),
        )
    return _doing(state, text)


def _doing(state: GuardState, text: str) -> Finding:
    if state.step == "none":
        suspended = f" ({state.suspended}: lost sensors lead to nothing)" if state.suspended else ""
        return Finding("ok", f"the thermal guard runs, and no card is too hot{suspended}")
    lines = [line.strip() for line in text.splitlines() if '"step"' in line or '"why"' in line]
    return Finding(
        "fail" if state.step in _FAILS else "warn",
        f"the thermal guard is at {state.step} since {state.since}: {state.why}",
        tuple(Evidence(RIGOPS_STATE.name, line) for line in dict.fromkeys(lines[:2])),
        why="It goes back by itself once the cards are cool and their sensors answer.",
        data={"step": state.step, "since": state.since},
        fix=Fix(
            kind="hands",
            text="look at the fans, at dust and at the air around the cards; "
            f"`journalctl -u {UNIT}` has every step",
        ),
    )


def _start(unit: OwnedUnit | None, limit: ThermalLimit) -> Fix:
    degrees = {
        "gpu": limit.gpu_celsius,
        "memory": limit.memory_celsius,
        "margin": limit.margin_celsius,
    }
    declared = {name: value for name, value in degrees.items() if value is not None}
    return owned_units.start(UNIT, unit, NAME, {"thermal_limit": declared})
