from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.probe.sections.cpufreq import MODULES, SECTION, parse
from tests.unit.cpu_policies import TREES
from tests.unit.patterns import slow_growth
from tests.unit.probe.snippets import run, tree
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

POLICIES = """\
== /sys/devices/system/cpu/cpufreq
policy0 driver=amd-pstate-epp governor=powersave epp=- min=400000 max=3200000 least=- most=5759000
policy17 driver=- governor=<unknown>
== /sys/devices/system/cpu/intel_pstate/no_turbo
1
"""
ROOT = "/sys/devices/system/cpu"
FILES = {
    f"{ROOT}/cpufreq/policy0/scaling_driver": "amd-pstate-epp\n",
    f"{ROOT}/cpufreq/policy0/scaling_governor": "powersave\n",
    f"{ROOT}/cpufreq/policy0/energy_performance_preference": "balance_performance\n",
    f"{ROOT}/cpufreq/policy0/scaling_min_freq": "400000\n",
    f"{ROOT}/cpufreq/policy0/scaling_max_freq": "3200000\n",
    f"{ROOT}/cpufreq/policy0/cpuinfo_min_freq": "400000\n",
    f"{ROOT}/cpufreq/policy0/cpuinfo_max_freq": "5759000\n",
    f"{ROOT}/cpufreq/policy17/scaling_driver": "amd-pstate-epp\n",
    f"{ROOT}/cpufreq/boost": "1\n",
    f"{ROOT}/amd_pstate/status": "active\n",
    f"{ROOT}/intel_pstate/status": "passive\n",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_policies(shell: str, tmp_path: Path) -> None:
    tree(tmp_path, FILES)

    code, text = run(SECTION, shell, tmp_path, "/sys/devices/system/cpu")
    found = parse(text)

    assert code == 0
    first, second = found.policies
    assert (first.number, first.driver, first.governor) == (0, "amd-pstate-epp", "powersave")
    assert first.preference == "balance_performance"
    assert (first.min_khz, first.max_khz) == (400_000, 3_200_000)
    assert (first.least_khz, first.most_khz) == (400_000, 5_759_000)
    assert (second.number, second.governor, second.max_khz) == (17, None, None)
    assert found.boost is True
    assert not found.unparsed


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", TREES)
def test_what_each_driver_offers(shell: str, name: str, tmp_path: Path) -> None:
    rig = TREES[name]
    tree(tmp_path, {f"/{path}": text for path, text in rig.files.items()})

    found = parse(run(SECTION, shell, tmp_path, ROOT)[1])

    assert not found.unparsed
    assert [one.driver for one in found.policies] == [rig.driver] * 2
    (one, _) = found.policies
    assert one.governors == tuple(rig.governors.split())
    assert one.steps_khz == tuple(map(int, rig.steps.split()))
    assert (one.least_khz, one.most_khz) == (rig.least_khz, rig.most_khz)


@pytest.mark.parametrize(("off", "boost"), [("0", True), ("1", False)])
def test_intel_says_no_turbo_where_others_say_boost(off: str, *, boost: bool) -> None:
    assert parse(f"== {ROOT}/intel_pstate/no_turbo\n{off}\n").boost is boost


@pytest.mark.parametrize("shell", SHELLS)
def test_a_host_that_does_not_scale(shell: str, tmp_path: Path) -> None:
    code, text = run(SECTION, shell, tmp_path, "/sys/devices/system/cpu")
    found = parse(text)

    assert (code, found.policies, found.boost, found.unparsed) == (0, (), None, ())


@given(
    text=st.one_of(
        st.text(), st.lists(st.sampled_from(POLICIES.splitlines()), max_size=30).map("\n".join)
    ),
    cut=st.integers(0, 900),
    letter=st.characters(),
)
def test_any_text_is_read_or_named(text: str, cut: int, letter: str) -> None:
    for damaged in (text, POLICIES[:cut] + letter + POLICIES[cut:], POLICIES[cut:] + text):
        parse(damaged)
    assert parse("\x00rubbish " + text).unparsed


@pytest.mark.parametrize(
    ("head", "unit"),
    [("policy0", " a=1"), ("", "current policy: "), ("", "9"), ("", "policy0 a=1\n")],
)
def test_twice_the_text_takes_twice_the_time(head: str, unit: str) -> None:
    assert slow_growth(parse, lambda size: head + unit * (size // len(unit)), 64 * 1024) is None


def test_governors_that_a_module_would_bring_are_listed() -> None:
    text = f"{POLICIES}== {MODULES}\nondemand\nconservative\n"

    assert parse(text).loadable == frozenset({"ondemand", "conservative"})
    assert parse(text).unparsed == ()
    assert parse(POLICIES).loadable is None
