"""What CPU policies get from a declaration, and which declarations no driver holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from rigops.concerns.cpu_tuning import decide
from rigops.concerns.cpu_tuning.state import (
    Before,
    Declared,
    frequency,
    judge_policies,
    named,
    was_set,
)
from rigops.concerns.state import DIFFERS, LEFT_OVER, REFUSED, State
from rigops.probe.sections.cpufreq import CpuFreq, Policy
from rigops.probe.sections.units import Unit, Units
from tests.unit.cpu_policies import TREES, Tree

ACPI: Final = TREES["acpi-cpufreq"]
PASSIVE: Final = TREES["intel_pstate passive"]


def policies(tree: Tree, *, boost: bool | None = None) -> CpuFreq:
    one = Policy(
        number=0,
        line="",
        driver=tree.driver,
        governor=tree.was_governor,
        min_khz=tree.least_khz,
        max_khz=tree.most_khz,
        least_khz=tree.least_khz,
        most_khz=tree.most_khz,
        governors=tuple(tree.governors.split()),
        steps_khz=tuple(map(int, tree.steps.split())),
    )
    return CpuFreq(policies=(one, replace(one, number=1)), boost=boost)


def refused(tree: Tree, *, loadable: tuple[str, ...] = (), **declared: str | int) -> list[str]:
    governor, khz = declared.get("governor"), declared.get("khz")
    asked = Declared(str(governor) if governor else None, int(khz) if khz else None)
    found = judge_policies(asked, policies(tree).policies, {}, loadable)
    return [state.why for state in found if state.status == REFUSED]


def differences(
    declared: Declared, found: tuple[Policy, ...], before: Before | None = None
) -> list[tuple[str, str, str]]:
    was = {(one.number, str(one.driver)): before for one in found if before}
    states = judge_policies(declared, found, was, ())
    return [(state.name, state.now, state.wanted) for state in states if state.is_to_change]


def notices(tree: Tree, khz: int, *, boost: bool | None = True) -> list[str]:
    return list(decide.notices(Declared(None, khz), policies(tree, boost=boost)))


@pytest.mark.parametrize("name", TREES)
def test_each_driver_gets_both_settings_once_and_gives_back_both(name: str) -> None:
    tree = TREES[name]
    found = policies(tree).policies
    declared = Declared(tree.governor, tree.khz)
    most, held = frequency(tree.most_khz), frequency(tree.held_khz)

    assert refused(tree, governor=tree.governor, khz=tree.khz) == []
    assert differences(declared, found) == [
        ("CPU policies 0-1 governor", tree.was_governor, tree.governor),
        ("CPU policies 0-1 highest frequency", most, held),
    ]

    tuned = tuple(replace(one, governor=tree.governor, max_khz=tree.held_khz) for one in found)
    was = Before(tree.was_governor, tree.most_khz)
    assert differences(declared, tuned, was) == []
    assert differences(Declared(), tuned, was) == [
        ("CPU policies 0-1 governor", tree.governor, tree.was_governor),
        ("CPU policies 0-1 highest frequency", held, most),
    ]


def test_only_the_policy_that_somebody_changed_is_set() -> None:
    first, second = policies(PASSIVE).policies
    found = (replace(first, max_khz=2_500_000), replace(second, max_khz=3_000_000))

    assert differences(Declared(None, 2_500_000), found) == [
        ("CPU policy 1 highest frequency", "3 GHz", "2.5 GHz")
    ]


def test_slower_cores_of_a_hybrid_are_not_limited() -> None:
    first, second = policies(TREES["intel_pstate active"]).policies
    slower = replace(second, most_khz=3_800_000, max_khz=3_800_000)

    ((name, _, _),) = differences(Declared(None, 4_200_000), (first, slower))
    assert name == "CPU policy 0 highest frequency"


def test_a_limit_goes_back_no_further_than_the_hardware_reaches_now() -> None:
    (one, _) = policies(ACPI).policies
    lower = replace(one, most_khz=3_500_000, max_khz=2_800_000)

    ((_, _, wanted),) = differences(Declared(), (lower,), Before(None, 4_000_000))
    assert wanted == "3.5 GHz"


@pytest.mark.parametrize(
    ("tree", "governor", "loadable", "is_refused"),
    [
        ("intel_pstate active", "schedutil", ("schedutil",), True),
        ("amd-pstate active", "ondemand", (), True),
        ("amd-pstate guided", "ondemand", (), False),
        ("intel_pstate passive", "performance", (), False),
    ],
)
def test_a_governor_that_the_mode_has_not_is_refused(
    tree: str, governor: str, loadable: tuple[str, ...], *, is_refused: bool
) -> None:
    found = refused(TREES[tree], governor=governor, loadable=loadable)

    assert bool(found) is is_refused
    if is_refused:
        assert f'cpu_governor = "{governor}": CPU policies 0-1' in found[0]
        assert "performance, powersave" in found[0]
        assert "kernel_args" in found[0]


def test_a_governor_that_a_module_brings_is_no_error_without_a_closed_list() -> None:
    few = replace(ACPI, governors="performance schedutil")

    assert refused(few, governor="ondemand", loadable=("ondemand",)) == []
    (reason,) = refused(few, governor="ondemand", loadable=("conservative",))
    assert "conservative, performance, schedutil. fix: declare one of those" in reason


def test_without_a_list_the_kernel_answers() -> None:
    assert refused(replace(ACPI, governors=""), governor="ondemand") == []


@pytest.mark.parametrize("khz", [2_100_000, 4_100_000])
def test_a_limit_outside_what_the_processor_can_is_refused_with_the_range(khz: int) -> None:
    (reason,) = refused(ACPI, khz=khz)

    assert f'cpu_max_freq = "{frequency(khz)}"' in reason
    assert "accepts 2.2 GHz to 4 GHz" in reason


def test_a_limit_at_either_end_is_accepted() -> None:
    assert refused(ACPI, khz=2_200_000) == refused(ACPI, khz=4_000_000) == []


def test_the_step_that_will_hold_is_named_and_that_boost_ends() -> None:
    step, boost = notices(ACPI, 3_000_000)

    assert step == (
        'cpu_max_freq = "3 GHz": 2.8 GHz will hold, since acpi-cpufreq has 2.2 GHz, 2.8 GHz, 4 GHz'
    )
    assert boost.startswith("boost ends")


def test_at_the_highest_step_boost_stays() -> None:
    (boost,) = notices(ACPI, 4_000_000)

    assert boost.startswith("boost stays: 4 GHz is the highest P-state")
    assert "a limit of 2.8 GHz would end that" in boost
    assert notices(ACPI, 4_000_000, boost=False) == []


@pytest.mark.parametrize("name", [name for name in TREES if name != "acpi-cpufreq"])
def test_a_driver_that_is_free_in_its_steps_holds_the_limit_itself(name: str) -> None:
    tree = TREES[name]

    assert notices(tree, tree.khz) == []


def test_powersave_without_a_mode_of_its_own_means_the_lowest_frequency() -> None:
    declared = Declared("powersave")

    (text,) = decide.notices(declared, policies(PASSIVE))
    assert "stays at its lowest frequency (1.2 GHz)" in text
    assert not list(decide.notices(declared, policies(TREES["amd-pstate active"])))


def test_why_nothing_is_scaled_names_keys_and_machine() -> None:
    in_a_machine = decide.nothing_scales("kvm", ["cpu_max_freq"])
    assert "cpu_max_freq: skipped" in in_a_machine
    assert "virtual machine: kvm" in in_a_machine
    assert "BIOS" in decide.nothing_scales("", ["cpu_max_freq", "cpu_governor"])


def test_a_processor_that_is_offline_counts_for_nothing() -> None:
    first, second = policies(ACPI).policies
    found = CpuFreq(policies=(first, replace(second, governor=None)))

    assert decide.in_use(found) == (first,)


@pytest.mark.parametrize(
    ("name", "active", "enabled", "is_named"),
    [
        ("tuned.service", "active", "enabled", True),
        ("power-profiles-daemon.service", "inactive", "static", False),
        ("cpupower.service", "inactive", "enabled", True),
        ("cpufrequtils.service", "active", "generated", True),
        ("cpupower.service", "inactive", "disabled", False),
        ("thermald.service", "active", "enabled", False),
    ],
)
def test_what_would_undo_it_is_named_with_its_unit(
    name: str, active: str, enabled: str, *, is_named: bool
) -> None:
    unit = Unit(name=name, line="", load="loaded", active=active, enabled=enabled)

    found = list(decide.rivals(Units(units=(unit,))))

    assert bool(found) is is_named
    assert all(f"sudo systemctl disable --now --no-reload {name}" in one for one in found)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((4,), "policy 4"), ((0, 1, 2, 3, 8), "policies 0-3, 8"), ((10, 2), "policies 2, 10")],
)
def test_policies_are_named_as_ranges(numbers: tuple[int, ...], text: str) -> None:
    assert named(numbers) == text


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "rigops.cpu_tuning/1"}', "[" * 9999])
def test_a_damaged_record_undoes_nothing(text: str) -> None:
    assert was_set(text, "boot") == {}


def test_what_changes_is_said_once_with_its_values() -> None:
    pending = [
        State("", "host", "CPU policies 0-3 governor", "performance", "schedutil", DIFFERS),
        State("", "host", "CPU policies 4-7 governor", "performance", "schedutil", DIFFERS),
        State("", "host", "CPU policy 0 highest frequency", "4.2 GHz", "3 GHz", LEFT_OVER),
    ]

    assert list(decide.headlines(pending)) == [
        "CPU governor schedutil -> performance",
        "highest CPU frequency 3 GHz -> 4.2 GHz (no longer declared here)",
    ]
