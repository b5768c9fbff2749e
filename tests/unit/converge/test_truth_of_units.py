"""Plan starts a unit of a concern if and only if doctor says that apply does."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from rigops import assets
from rigops.concerns.monitoring import operations as monitoring
from rigops.concerns.monitoring.facts import Monitoring, MonitoringHost
from rigops.concerns.thermal_guard import operations as guard
from rigops.concerns.thermal_guard.operations import PythonFact
from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.doctor.registry import examine
from rigops.facts.sections import RigopsState, SectionFact, Smi
from rigops.ownership.ownership import OwnedFile, Ownership
from rigops.plan.context import Consent
from rigops.probe.sections import boot, rigops_state
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.rigops_state import OwnedUnit, Present
from rigops.probe.sections.units import SYSTEM_UNITS
from rigops.transport import Privilege
from tests.unit.converge.fakes import FakeHost
from tests.unit.doctor.driven_cards import RTX3090, rig
from tests.unit.doctor.examining import catalog, check_of, spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.plan.change import Plan

GUARD: Final = "rigops-thermal-guard.service"
CHECK: Final = "rigops-self-check.timer"
METRICS: Final = "rigops-metrics.timer"
FOLDER: Final = "/var/lib/prometheus/node-exporter"
RUNS: Final = OwnedUnit("active", "enabled")
PYTHON: Final = (3, 11)
PATHS: Final = [
    *(f"{SYSTEM_UNITS}{name}" for name in (GUARD, CHECK, METRICS)),
    *(f"{SYSTEM_UNITS}{name}.service" for name in (monitoring.CHECK_UNIT, monitoring.METRICS_UNIT)),
    guard.PROGRAM, guard.SETTINGS, guard.COMMAND,
    monitoring.SELF_CHECK, monitoring.SETTINGS, monitoring.NOTIFY_PROGRAM,
    monitoring.NOTIFY_TARGET, monitoring.HANDLER,
]  # fmt: skip


def planned(concern: str, declared: Mapping[str, object], state: rigops_state.RigopsState) -> Plan:
    engine = Engine({"rig": dict(declared)})
    channel = HostChannel(FakeHost(), Privilege("root"))
    known: list[tuple[type[SectionFact[Any]], object]] = [
        (RigopsState, state),
        (Smi, rig(RTX3090)[SMI].or_empty),
        (PythonFact, PYTHON),
        (MonitoringHost, Monitoring(python=PYTHON, commands=("ExecStart=",), debian_folder=FOLDER)),
    ]
    channel.cache.seed_files(PATHS, {})
    engine.attach("rig", channel, known)
    return engine.plan("rig", [assets.find("deploys") / f"{concern}.py"], consent=Consent())


def units_of(plan: Plan) -> dict[str, str]:
    changes = (one for one in plan.changes if one.kind == "unit")
    return {one.subject.removeprefix(SYSTEM_UNITS): one.after or "" for one in changes}


def by_plan(
    concern: str, declared: Mapping[str, object], units: Mapping[str, OwnedUnit]
) -> tuple[set[str], rigops_state.RigopsState]:
    """The units that it writes or starts, and the host on which these are there as planned."""
    files, present = {}, {}
    for unit, text in units_of(planned(concern, declared, rigops_state.RigopsState())).items():
        if unit in units:
            path, digest = f"{SYSTEM_UNITS}{unit}", sha256(text.encode()).hexdigest()
            files[path] = OwnedFile(path=path, concern=concern, digest=digest, mode=0o644)
            present[path] = Present(digest, 0o644)
    state = rigops_state.RigopsState(
        owned=Ownership(files).to_json(), present=present, units=dict(units)
    )
    plan = planned(concern, declared, state)
    return set() if plan.blocked else set(units_of(plan)), state


def by_doctor(
    concern: str, check: str, declared: Mapping[str, object], state: rigops_state.RigopsState
) -> set[str]:
    snapshot = rig(RTX3090, rigops_state=state, boot=boot.Boot(uptime_s=1010.0))
    found = examine(
        snapshot, spec(**declared), catalog(), checks=(check_of(check),),
        concerns=frozenset({concern}),
    )  # fmt: skip
    fixes = [(one.subject, one.fix) for one in found if one.fix and one.fix.by_apply]
    return {GUARD if subject == "host" else subject for subject, _ in fixes}


_UNIT: Final = some.builds(
    OwnedUnit,
    some.sampled_from(["active", "activating", "reloading", "inactive", "failed", "", "garbage"]),
    some.sampled_from(["enabled", "disabled", "enabled-runtime", "static", "masked", ""]),
)


@settings(max_examples=min(40, settings().max_examples // 2))
@given(
    some.fixed_dictionaries(
        {},
        optional={
            "thermal_limit": some.sampled_from([83, {"margin": 5}, {"memory": 95}]),
            "thermal_hold": some.just(60),
        },
    ),
    some.dictionaries(some.just(GUARD), _UNIT),
)
@example({"thermal_limit": 83}, {GUARD: OwnedUnit("active", "disabled")})
def test_the_thermal_guard_is_started_where_doctor_says_so(
    declared: dict[str, object], units: dict[str, OwnedUnit]
) -> None:
    found, state = by_plan("thermal_guard", declared, units)

    assert by_doctor("thermal_guard", "tmp.guard", declared, state) == found


@settings(max_examples=min(40, settings().max_examples // 2))
@given(
    some.fixed_dictionaries(
        {}, optional={"notify": some.just("mail root"), "metrics": some.sampled_from(["auto"])}
    ),
    some.dictionaries(some.sampled_from([CHECK, METRICS]), _UNIT),
)
def test_the_timers_of_the_self_check_are_started_where_doctor_says_so(
    declared: dict[str, object], units: dict[str, OwnedUnit]
) -> None:
    found, state = by_plan("monitoring", declared, units)

    assert by_doctor("monitoring", "rigops.selfcheck", declared, state) == found


@pytest.mark.parametrize("declared", [{"thermal_limit": 83}, {"metrics": "auto"}])
def test_a_host_with_units_that_run_has_no_change_of_them(declared: dict[str, object]) -> None:
    concern = "thermal_guard" if "thermal_limit" in declared else "monitoring"
    units = dict.fromkeys([GUARD] if concern == "thermal_guard" else [CHECK, METRICS], RUNS)

    assert by_plan(concern, declared, units)[0] == set()
