"""tmp.guard, and what the guard has lowered in the eyes of pwr.limit."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.concerns.thermal_guard import record
from rigops.concerns.thermal_guard.decide import UNIT
from rigops.doctor.checks.power_limit import limit
from rigops.doctor.checks.temperature import guard
from rigops.doctor.registry import examine
from rigops.probe.sections.boot import Boot
from rigops.probe.sections.rigops_state import OwnedUnit, RigopsState
from tests.unit.doctor.driven_cards import RTX3090, rig
from tests.unit.doctor.examining import catalog, snapshot_of, spec

if TYPE_CHECKING:
    from rigops.doctor.check import Check
    from rigops.doctor.finding import Finding
    from rigops.probe.snapshot import HostSnapshot

CONCERNS: Final = frozenset({"thermal_guard", "gpu_tuning"})
RUNS: Final = OwnedUnit("active", "enabled")
LOWERED: Final = {
    "uuid": "GPU-1",
    "address": "0000:0a:00.0",
    "step": "lower-power",
    "rung": 3,
    "why": "it is at 90 °C, above 83 °C",
    "watts": 285.0,
    "watts_before": 350.0,
}


def written(step: str = "none", **more: Any) -> str:
    document = {
        "schema": "rigops.thermal_guard/1",
        "step": step,
        "since": "2026-11-25T02:00:00Z",
        "why": "" if step == "none" else "GPU 0000:0a:00.0: it is at 90 °C, above 83 °C",
        "suspended": "",
        "uptime_s": 1000.0,
        "cards": [],
        **more,
    }
    return json.dumps(document, indent=1)


def on_host(
    text: str | None, unit: OwnedUnit | None = RUNS, uptime_s: float = 1010.0
) -> HostSnapshot:
    state = RigopsState(
        units={UNIT: unit} if unit else {}, records={} if text is None else {record.PATH: text}
    )
    return snapshot_of(rig(RTX3090), rigops_state=state, boot=Boot(uptime_s=uptime_s))


def one(check: Check, facts: HostSnapshot, **declared: object) -> Finding:
    found = examine(facts, spec(**declared), catalog(), checks=(check,), concerns=CONCERNS)
    (finding,) = found
    return finding


@pytest.mark.parametrize(
    ("facts", "status", "words"),
    [
        (on_host(written()), "ok", "no card is too hot"),
        (on_host(written(suspended="a preflight is under way")), "ok", "a preflight is under way"),
        (on_host(written("notify")), "warn", "is at notify since 2026-11-25T02:00:00Z: GPU"),
        (on_host(written("lower-power")), "warn", "is at lower-power"),
        (on_host(written("stop-jobs")), "fail", "is at stop-jobs"),
        (on_host(written(), OwnedUnit("failed", "enabled")), "fail", "does not run"),
        (on_host(written(), None), "warn", "not on the host yet"),
        (on_host(written(), uptime_s=1089.0), "ok", "no card is too hot"),
        (on_host(written(), uptime_s=1100.0), "fail", "hangs: it has written nothing for 100 s"),
        (on_host(None), "unknown", "cannot be read"),
        (on_host("{}"), "unknown", "cannot be read"),
    ],
)
def test_what_it_does_and_whether_it_runs(facts: HostSnapshot, status: str, words: str) -> None:
    found = one(guard, facts, thermal_limit=83)

    assert (found.status, words in found.summary) == (status, True)


def test_without_a_declaration_it_is_skipped() -> None:
    assert one(guard, on_host(written())).status == "skipped"


def test_a_guard_that_does_not_run_is_started_by_apply() -> None:
    found = one(guard, on_host(written(), OwnedUnit("failed", "enabled")), thermal_limit=83)

    assert found.fix
    assert (found.fix.kind, found.fix.concern) == ("apply", "thermal_guard")
    assert found.fix.declare == {"thermal_limit": {"gpu": 83.0}}


@pytest.mark.parametrize(
    ("unit", "kind"),
    [
        (OwnedUnit("active", "enabled"), None),
        (OwnedUnit("activating", "enabled"), None),
        (OwnedUnit("reloading", "enabled"), None),
        (OwnedUnit("active", "disabled"), "apply"),
        (OwnedUnit("inactive", "enabled"), "apply"),
        (OwnedUnit("inactive", "masked"), "hands"),
    ],
)
def test_doctor_says_apply_where_plan_starts_the_unit(unit: OwnedUnit, kind: str | None) -> None:
    fix = one(guard, on_host(written(), unit), thermal_limit=83).fix

    assert unit.runs is (fix is None)
    assert (fix.kind if fix else None) == kind


def test_what_was_not_collected_is_unknown() -> None:
    facts = snapshot_of(rig(RTX3090), rigops_state=None, boot=Boot(uptime_s=1.0))

    assert one(guard, facts, thermal_limit=83).status == "unknown"


def lowered(watts: float) -> HostSnapshot:
    card = replace(RTX3090, watts_limit=285.0, watts_requested=285.0)
    held = {**LOWERED, "uuid": card.uuid, "watts": watts}
    state = RigopsState(records={record.PATH: written("lower-power", cards=[held])})
    return snapshot_of(rig(card), rigops_state=state)


@pytest.mark.parametrize("declared", [{"gpu_power_limit": 350}, {}])
@pytest.mark.parametrize("watts", [285.0, 284.1, 285.9])
def test_a_limit_that_the_guard_has_lowered_is_no_drift(
    declared: dict[str, object], watts: float
) -> None:
    found = one(limit, lowered(watts), **declared)

    assert found.status == "info"
    assert f"the thermal guard has lowered it to {watts:g} W: it is at 90 °C" in found.summary


def test_the_card_is_known_by_its_address_too() -> None:
    card = replace(RTX3090, watts_limit=285.0, watts_requested=285.0)
    state = RigopsState(records={record.PATH: written("lower-power", cards=[LOWERED])})
    facts = snapshot_of(rig(card), rigops_state=state)

    assert "the thermal guard has lowered it" in one(limit, facts, gpu_power_limit=350).summary


@pytest.mark.parametrize("watts", [200.0, 283.9, 286.1])
def test_a_limit_that_somebody_else_has_set_meanwhile_is_drift(watts: float) -> None:
    assert one(limit, lowered(watts), gpu_power_limit=350).status == "warn"
    assert "by hand" in one(limit, lowered(watts)).summary
