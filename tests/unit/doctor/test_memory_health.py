from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.doctor.registry import CHECKS
from rigops.probe.kernel_log.events import KernelLog
from rigops.probe.sections import sensors, units
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.smi.report import SmiGpu, SmiReport
from tests.unit.doctor.driven_cards import FIRST, RTX3090, SECOND, SXM2, look, rig, statuses
from tests.unit.doctor.examining import snapshot_of, spec

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding
    from rigops.inventory.spec import RigSpec
    from rigops.probe.snapshot import HostSnapshot

EVERY_CHECK = [
    check
    for check in CHECKS
    if check.id.startswith(("pwr.", "clk.", "tmp.", "ecc."))
    or check.id in {"remap", "retired", "inforom"}
]


def health(check: str, *gpus: SmiGpu) -> list[Finding]:
    return look(check, rig(*gpus))


@pytest.mark.parametrize(
    ("check", "gpu", "status"),
    [
        ("remap", RTX3090, "ok"),
        ("remap", replace(RTX3090, remap_pending=True), "warn"),
        ("remap", replace(RTX3090, remap_failed=True), "fail"),
        ("remap", replace(RTX3090, remap_failed=True, remap_pending=True), "fail"),
        ("remap", replace(RTX3090, remapped_uncorrected=2), "info"),
        ("remap", replace(RTX3090, remapped_uncorrected=512), "fail"),
        ("remap", replace(RTX3090, remap_failed=None), "unknown"),
        ("remap", replace(RTX3090, remap_pending=None), "unknown"),
        ("remap", SXM2, "skipped"),
        ("retired", SXM2, "ok"),
        ("retired", replace(SXM2, retired_pending=True), "warn"),
        ("retired", replace(SXM2, retired_single=14), "warn"),
        ("retired", replace(SXM2, retired_single=13), "ok"),
        ("retired", replace(SXM2, retired_double=63), "fail"),
        ("retired", replace(SXM2, retired_double=None), "unknown"),
        ("retired", RTX3090, "skipped"),
        ("ecc.vol", SXM2, "ok"),
        ("ecc.vol", replace(SXM2, ecc_volatile_uncorrected=1), "fail"),
        ("ecc.vol", replace(SXM2, ecc_volatile_uncorrected=None), "unknown"),
        ("ecc.vol", replace(SXM2, ecc_volatile_uncorrected=None, ecc=False), "skipped"),
        ("ecc.vol", RTX3090, "skipped"),
        ("ecc.agg", SXM2, "ok"),
        ("ecc.agg", replace(SXM2, ecc_aggregate_uncorrected=4), "info"),
        ("ecc.agg", replace(SXM2, ecc_aggregate_uncorrected=5), "fail"),
        ("ecc.agg", RTX3090, "skipped"),
        ("ecc.corr", SXM2, "ok"),
        ("ecc.corr", replace(SXM2, ecc_aggregate_corrected=50_000_000), "warn"),
        ("ecc.corr", RTX3090, "skipped"),
    ],
)
def test_a_card(check: str, gpu: SmiGpu, status: str) -> None:
    assert statuses(health(check, gpu)) == [status]


def test_only_the_card_that_is_not_well_is_named() -> None:
    (found,) = health("ecc.vol", SXM2, replace(SXM2, ecc_volatile_uncorrected=2), SXM2)

    assert (found.subject, found.status) == (f"gpu {SECOND}", "fail")
    assert found.data == {"errors": 2}


def test_a_module_that_lost_its_counters_among_others_is_not_well() -> None:
    silent = replace(SXM2, ecc=None, ecc_volatile_uncorrected=None)

    assert statuses(health("ecc.vol", SXM2, silent)) == ["unknown"]


def test_a_card_is_no_less_told_of_than_its_like() -> None:
    silent = replace(RTX3090, remap_pending=None, remap_failed=None)

    assert statuses(health("remap", silent, RTX3090)) == ["unknown"]
    assert statuses(health("remap", silent, silent)) == ["skipped"]


def test_a_geforce_beside_a_card_with_ecc_is_to_be_expected() -> None:
    assert statuses(health("ecc.vol", SXM2, RTX3090)) == ["ok"]


def test_a_card_that_must_be_replaced_is_no_matter_for_apply() -> None:
    (found,) = health("remap", replace(RTX3090, remap_failed=True))

    assert found.fix is not None
    assert found.fix.kind == "buy"
    assert "RMA" in found.fix.text


@pytest.mark.parametrize(
    ("report", "status"),
    [
        (SmiReport(gpus=(replace(RTX3090, address=FIRST),), is_complete=True), "ok"),
        (SmiReport(failure="other", failure_lines=("NVIDIA-SMI has failed",)), "unknown"),
        (None, "unknown"),
    ],
)
def test_the_inforom(report: SmiReport | None, status: str) -> None:
    facts = snapshot_of(rig(RTX3090), nvidia_smi_xml=report)

    assert statuses(look("inforom", facts)) == [status]


# A rig on which all that these checks know of is wrong.
WRONG = replace(
    SXM2,
    watts_limit=250.0,
    watts_requested=100.0,
    throttle=frozenset({"hw_slowdown", "hw_power_brake", "sw_thermal_slowdown"}),
    utilization_percent=97,
    mhz_sm=135,
    mhz_graphics=1530,
    fan_percent=0,
    celsius=91.0,
    memory_celsius=99.0,
    ecc_volatile_uncorrected=3,
    ecc_aggregate_uncorrected=30,
    ecc_aggregate_corrected=70_000_000,
    retired_single=70,
    retired_double=3,
    retired_pending=True,
    remap_pending=True,
    remap_failed=True,
    remapped_uncorrected=512,
)
SENSORS = sensors.parse("== ipmitool sdr\n12V | 11.1 Volts | cr\n== x\ncoretemp-isa-0\nC: +101 C\n")
UNITS = units.parse("== grep nvidia-smi\n/a:nvidia-smi -pl 9\n/b:nvidia-smi -pl 8\n")
DECLARED = spec(
    gpu_power_limit=200,
    gpu_clocks="application=877,1005",
    psus=[{"watts": 300, "gpus": [FIRST], "host": True}, {"watts": 300, "gpus": [SECOND]}],
)


def wrong(*gpus: SmiGpu) -> HostSnapshot:
    return rig(*gpus, sensors=SENSORS, units=UNITS, kernel_log=KernelLog(starts_at_boot=True))


@cache
def before(*, is_declared: bool) -> dict[str, list[str]]:
    return judged(wrong(WRONG, WRONG), DECLARED if is_declared else None)


def judged(facts: HostSnapshot, declared: RigSpec | None) -> dict[str, list[str]]:
    return {check.id: statuses(look(check.id, facts, declared)) for check in EVERY_CHECK}


def test_everything_is_wrong_there() -> None:
    bad = {check for check, said in before(is_declared=True).items() if {"fail", "warn"} & {*said}}

    assert bad == {
        "pwr.limit", "pwr.units", "pwr.brake", "pwr.sensor12v", "pwr.budget", "clk.throttle",
        "clk.app", "tmp.core", "tmp.mem", "tmp.fan", "tmp.host", "remap", "retired", "ecc.vol",
        "ecc.agg", "ecc.corr",
    }  # fmt: skip


def is_worse_hidden(check: str, said: list[str], *, is_declared: bool) -> bool:
    return bool({"fail", "warn"} & {*before(is_declared=is_declared)[check]}) and "ok" in said


@given(
    names=st.lists(
        st.sampled_from([f.name for f in fields(SmiGpu) if f.default is None]), max_size=3
    ),
    at=st.integers(0, 1),
    declared=st.sampled_from([None, DECLARED]),
)
def test_a_field_that_is_lost_never_makes_it_well(
    names: list[str], at: int, declared: RigSpec | None
) -> None:
    facts = wrong(WRONG, WRONG)
    report = facts[SMI].value
    assert report is not None
    nothing: dict[str, Any] = dict.fromkeys(names)
    gpus = list(report.gpus)
    gpus[at] = replace(gpus[at], **nothing)

    damaged = snapshot_of(facts, nvidia_smi_xml=replace(report, gpus=tuple(gpus)))

    for check, said in judged(damaged, declared).items():
        assert not is_worse_hidden(check, said, is_declared=declared is not None), check


@pytest.mark.parametrize("is_declared", [True, False])
@pytest.mark.parametrize("name", ["pci", "nvidia_smi_xml", "sensors", "units", "kernel_log"])
def test_a_section_that_is_lost_or_cut_never_makes_it_well(name: str, *, is_declared: bool) -> None:
    facts = wrong(WRONG, WRONG)
    report = facts[SMI].value
    assert report is not None
    nothing: dict[str, Any] = {name: None}
    lost = snapshot_of(facts, **nothing)
    cut = snapshot_of(facts, cut=frozenset({name.replace("_", "-")}))
    half = snapshot_of(
        facts, nvidia_smi_xml=replace(report, gpus=report.gpus[:1], is_complete=False)
    )

    for damaged in (lost, cut, half):
        for check, said in judged(damaged, DECLARED if is_declared else None).items():
            assert not is_worse_hidden(check, said, is_declared=is_declared), check


def test_every_check_says_something_of_every_host() -> None:
    for facts in (rig(), rig(RTX3090), wrong(WRONG)):
        for check, said in judged(facts, None).items():
            assert said, check


def test_every_warning_and_failure_has_a_fix() -> None:
    for check in EVERY_CHECK:
        for found in look(check.id, wrong(WRONG, WRONG), DECLARED):
            if found.status in {"fail", "warn"}:
                assert found.fix is not None, found
