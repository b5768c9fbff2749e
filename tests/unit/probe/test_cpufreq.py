from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.probe.sections.cpufreq import SECTION, parse
from tests.unit.probe.snippets import SHELLS, run, tree

if TYPE_CHECKING:
    from pathlib import Path

CPUPOWER = """\
analyzing CPU 20:
  driver: acpi-cpufreq
  CPUs which run at the same hardware frequency: 20
  CPUs which need to have their frequency coordinated by software: 20
  maximum transition latency:  Cannot determine or is not supported.
  hardware limits: 1.50 GHz - 2600 MHz
  available frequency steps:  2.60 GHz, 1.90 GHz, 1.50 GHz
  available cpufreq governors: conservative ondemand userspace powersave performance schedutil
  current policy: frequency should be within 1.50 GHz and 1.60 GHz.
                  The governor "schedutil" may decide which speed to use
                  within this range.
  current CPU frequency: Unable to call hardware
  current CPU frequency: 2.60 GHz (asserted by call to kernel)
  boost state support:
    Supported: yes
    Active: no
    Boost States: 0
    Total States: 3
    Pstate-P0:  2600MHz
    25500 MHz max turbo 4 active cores
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


def test_what_cpupower_prints() -> None:
    found = parse(CPUPOWER)

    (policy,) = found.policies
    assert (policy.number, policy.driver, policy.governor) == (20, "acpi-cpufreq", "schedutil")
    assert (policy.least_khz, policy.most_khz) == (1_500_000, 2_600_000)
    assert (policy.min_khz, policy.max_khz, policy.now_khz) == (1_500_000, 1_600_000, 2_600_000)
    assert "1.60 GHz" in policy.line
    assert found.boost is False
    assert not found.unparsed


def test_a_cpu_whose_frequency_nobody_scales() -> None:
    found = parse("analyzing CPU 0:\n  no or unknown cpufreq driver is active on this CPU\n")

    assert not found.policies
    assert not found.unparsed


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
    assert (first.least_khz, first.most_khz, first.now_khz) == (400_000, 5_759_000, None)
    assert (second.number, second.governor, second.max_khz) == (17, None, None)
    assert (found.boost, found.amd_pstate, found.intel_pstate) == (True, "active", "passive")
    assert not found.unparsed


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
        st.text(), st.lists(st.sampled_from(CPUPOWER.splitlines()), max_size=30).map("\n".join)
    ),
    cut=st.integers(0, 900),
    letter=st.characters(),
)
def test_any_text_is_read_or_named(text: str, cut: int, letter: str) -> None:
    for damaged in (text, CPUPOWER[:cut] + letter + CPUPOWER[cut:], CPUPOWER[cut:] + text):
        parse(damaged)
    assert parse("\x00rubbish " + text).unparsed


def test_a_long_text_is_read_in_no_time() -> None:
    start = time.process_time()
    parse("policy0" + " a=1" * 200_000 + "\n" + "current policy: " * 100_000 + "\n" + "9" * 900_000)

    assert time.process_time() - start < 2
