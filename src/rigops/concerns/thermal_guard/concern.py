"""thermal_limit and what goes with it: heat and lost sensors, acted on step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.concern import Concern, HostRecord, of_schema
from rigops.concerns.thermal_guard import NAME
from rigops.hostside.packing import installed_at
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.machine import THERMAL_EXAMPLE, thermal_limit
from rigops.inventory.spec.scalars import Key, whole_number, word_key
from rigops.probe.sections.rigops_state import STATE

if TYPE_CHECKING:
    from rigops.facts.sections import SectionFact


_ACTIONS: Final = ("notify", "lower-power", "stop-jobs", "poweroff")


def _is_declared(spec: RigSpec) -> bool:
    keys = (spec.thermal_limit, spec.thermal_hold, spec.thermal_action, spec.thermal_sensor_loss)
    return any(one is not None for one in keys)


def _facts(spec: RigSpec) -> Sequence[type[SectionFact[Any]]]:
    from rigops.concerns.thermal_guard.operations import PythonFact
    from rigops.facts.sections import Smi

    return (Smi, PythonFact) if _is_declared(spec) else ()


def _deploy(spec: RigSpec) -> None:
    from rigops.concerns.thermal_guard.operations import guard_undeclared, thermal_guard

    if _is_declared(spec):
        thermal_guard(spec)
    else:
        guard_undeclared()


THERMAL_GUARD: Final = Concern(
    name=NAME,
    keys=(
        Key(
            "thermal_limit",
            f"degrees Celsius or {THERMAL_EXAMPLE}",
            thermal_limit,
            (NAME, "thermal", "thermal_max", "gpu_temperature", "gpu_temp_limit"),
        ),
        Key("thermal_hold", "seconds", whole_number(1, 3600, " s")),
        word_key("thermal_action", *_ACTIONS),
        word_key("thermal_sensor_loss", *_ACTIONS),
    ),
    deploy=_deploy,
    facts=_facts,
    records=(
        HostRecord(
            f"{STATE}/thermal_guard.json",
            "how warm each card mostly is at a given power is learned again",
            of_schema("rigops.thermal_guard_baseline/1"),
            f"remove it; rigops-{NAME.replace('_', '-')} writes it again",
        ),
    ),
    self_check=lambda spec: (installed_at(NAME), "check") if _is_declared(spec) else (),
)
