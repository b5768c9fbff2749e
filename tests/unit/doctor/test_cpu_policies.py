from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from rigops.doctor.checks.cpu_policies import declared_policies
from rigops.doctor.registry import examine
from rigops.probe.sections.cpufreq import CpuFreq, Policy
from tests.unit.doctor.examining import catalog, snapshot_of, spec

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding

LINE: Final = "policy0 driver=acpi-cpufreq governor=performance"
POLICY: Final = Policy(
    number=0,
    line=LINE,
    driver="acpi-cpufreq",
    governor="performance",
    max_khz=2_800_000,
    least_khz=2_200_000,
    most_khz=4_000_000,
    governors=("performance", "schedutil"),
    steps_khz=(4_000_000, 2_800_000, 2_200_000),
)
DECLARED: Final = {"cpu_governor": "performance", "cpu_max_freq": "3GHz"}


def finding(
    *policies: Policy, declared: dict[str, object] | None = None, is_cut: bool = False
) -> Finding:
    keys = dict(DECLARED) if declared is None else declared
    snapshot = snapshot_of(cpufreq=CpuFreq(policies=policies), cut=("cpufreq",) if is_cut else ())
    (found,) = examine(
        snapshot,
        spec(**keys),
        catalog(),
        checks=(declared_policies,),
        concerns=frozenset({"cpu_tuning"}),
    )
    return found


def test_a_limit_that_is_rounded_to_the_highest_step_below_is_well() -> None:
    found = finding(POLICY, replace(POLICY, number=1))

    assert (found.status, found.summary) == ("ok", "2 CPU policies: performance, up to 2.8 GHz")


@pytest.mark.parametrize(
    ("policy", "summary"),
    [
        (replace(POLICY, governor="schedutil"), "governor is schedutil, not performance"),
        (replace(POLICY, max_khz=4_000_000), "highest frequency is 4 GHz, not 2.8 GHz"),
    ],
)
def test_what_somebody_else_has_set_is_a_warning_that_apply_repairs(
    policy: Policy, summary: str
) -> None:
    found = finding(policy, replace(POLICY, number=1))

    assert (found.status, found.summary) == ("warn", f"CPU policy 0 {summary}")
    assert found.fix
    assert (found.fix.kind, found.fix.concern) == ("apply", "cpu_tuning")
    assert spec(**dict(found.fix.declare or {})) == spec(**DECLARED)
    assert [one.line for one in found.evidence] == [LINE]


def test_a_limit_that_the_cpu_cannot_hold_names_its_range() -> None:
    found = finding(POLICY, declared={"cpu_max_freq": "2GHz"})

    assert found.status == "warn"
    assert "accepts 2.2 GHz to 4 GHz" in found.summary


def test_without_a_declaration_or_scaling_it_is_skipped() -> None:
    assert finding(POLICY, declared={}).status == "skipped"
    assert finding().status == "skipped"


def test_policies_that_were_not_collected_whole_are_unknown() -> None:
    assert finding(is_cut=True).status == "unknown"
    assert finding(POLICY, is_cut=True).status == "unknown"
    (found,) = examine(snapshot_of(), spec(**DECLARED), catalog(), checks=(declared_policies,))
    assert found.status == "unknown"
