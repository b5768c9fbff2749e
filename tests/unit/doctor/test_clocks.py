from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.gpu_tuning import record
from rigops.probe.sections.boot import Boot
from rigops.probe.sections.rigops_state import RigopsState
from tests.unit.doctor.driven_cards import FIRST, RTX3090, SXM2, look, rig, statuses
from tests.unit.doctor.examining import spec

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding
    from rigops.probe.smi.report import SmiGpu

BUSY = replace(
    RTX3090,
    throttle=frozenset(),
    utilization_percent=98,
    mhz_sm=1905,
    mhz_graphics=1905,
    performance_state="P2",
)


@pytest.mark.parametrize(
    ("reasons", "busy", "status"),
    [
        ({"gpu_idle"}, 0, "ok"),
        (set(), 98, "ok"),
        ({"sw_power_cap"}, 98, "ok"),
        ({"applications_clocks"}, 98, "ok"),
        ({"display_clocks", "sync_boost"}, 3, "ok"),
        ({"sw_thermal_slowdown"}, 98, "warn"),
        ({"sw_power_cap", "sw_thermal_slowdown"}, 98, "warn"),
        ({"hw_slowdown", "hw_thermal_slowdown"}, 98, "fail"),
        ({"hw_slowdown", "hw_power_brake"}, 98, "fail"),
        ({"hw_slowdown"}, 98, "fail"),
        ({"hw_slowdown"}, None, "fail"),
        ({"hw_slowdown"}, 0, "info"),
        ({"gpu_idle", "hw_slowdown"}, None, "info"),
    ],
)
def test_what_limits_the_clocks(reasons: set[str], busy: int | None, status: str) -> None:
    gpu = replace(RTX3090, throttle=frozenset(reasons), utilization_percent=busy)

    assert statuses(look("clk.throttle", rig(gpu))) == [status]


def test_an_idle_module_that_stays_in_p0_is_explained() -> None:
    (found,) = look("clk.throttle", rig(SXM2))

    assert found.status == "ok"
    assert "P0 with 40 W" in found.why


def test_a_card_that_is_silent_among_others_is_not_well() -> None:
    silent = replace(RTX3090, throttle=None)

    assert statuses(look("clk.throttle", rig(silent, silent))) == ["skipped"]
    assert [(one.status, one.subject) for one in look("clk.throttle", rig(silent, RTX3090))] == [
        ("unknown", f"gpu {FIRST}")
    ]


def clocks(gpu: SmiGpu, declared: object) -> Finding:
    """Of a card whose locks were set by rigops in this boot, as declared."""
    entries = [
        {"card": gpu.uuid, "address": FIRST, "setting": name, "value": value, "was": "-"}
        for name, value in re.findall(r"(\w+)=(\S+)", declared if isinstance(declared, str) else "")
    ]
    text = {"schema": "rigops.gpu_tuning/1", "boot_id": "b", "settings": entries}
    state = RigopsState(records={record.PATH: json.dumps(text)})
    facts = rig(gpu, rigops_state=state, boot=Boot(boot_id="b"))
    (found,) = look("clk.app", facts, spec(gpu_clocks=declared))
    return found


@pytest.mark.parametrize(
    ("gpu", "declared", "status"),
    [
        (SXM2, "application=877,1290", "ok"),
        (SXM2, "application=877,1005", "warn"),
        (RTX3090, "application=877,1005", "fail"),
        (RTX3090, "graphics=210,1410", "ok"),
        (BUSY, "graphics=210,1410", "warn"),
        (BUSY, "graphics=210,1905", "ok"),
        (BUSY, "graphics=210,1890", "ok"),
        (BUSY, "graphics=210,1889", "warn"),
        (replace(BUSY, mhz_memory=9501), "graphics=210,1905 memory=405,5001", "warn"),
        (replace(BUSY, mhz_memory=None), "graphics=210,1905 memory=405,5001", "unknown"),
        (replace(BUSY, mhz_graphics=None), "graphics=210,1410", "unknown"),
        (BUSY, {"V100": "application=877,1005"}, "skipped"),
    ],
)
def test_declared_clocks(gpu: SmiGpu, declared: object, status: str) -> None:
    assert clocks(gpu, declared).status == status


def test_clocks_that_were_lost_are_applied_again() -> None:
    found = clocks(SXM2, {"V100": "application=877,1005"})

    assert found.fix is not None
    assert (found.fix.kind, found.fix.concern) == ("apply", "gpu_tuning")
    assert found.fix.declare == {"gpu_clocks": {"V100": "application=877,1005"}}


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({}, "unknown"),
        ({"rigops_state": RigopsState()}, "unknown"),
        ({"rigops_state": RigopsState(), "boot": Boot(boot_id="b")}, "warn"),
    ],
)
def test_a_lock_is_there_by_the_record_alone(facts: dict[str, object], status: str) -> None:
    """At idle the clock is low with and without it."""
    found = look("clk.app", rig(RTX3090, **facts), spec(gpu_clocks="graphics=210,1410"))

    assert statuses(found) == [status]


def test_without_a_declaration_there_are_no_clocks_to_have() -> None:
    assert statuses(look("clk.app", rig(SXM2))) == ["skipped"]


@pytest.mark.parametrize(
    ("gpu", "declared", "status"),
    [
        (RTX3090, None, "skipped"),
        (BUSY, None, "ok"),
        (replace(BUSY, mhz_sm=210), None, "warn"),
        (replace(BUSY, mhz_sm=1260), None, "ok"),
        (replace(BUSY, mhz_sm=1259), None, "warn"),
        (replace(BUSY, mhz_sm=1005), "graphics=210,1005", "ok"),
        (replace(BUSY, mhz_sm=1005, throttle=frozenset({"sw_power_cap"})), None, "ok"),
        (replace(BUSY, mhz_sm=1005, mhz_application_graphics=1005), None, "ok"),
        (replace(BUSY, mhz_sm=210, throttle=None), None, "unknown"),
        (replace(BUSY, mhz_sm=None), None, "unknown"),
        (replace(BUSY, mhz_max_sm=0), None, "unknown"),
        (replace(BUSY, utilization_percent=49, mhz_sm=210), None, "skipped"),
    ],
)
def test_a_card_that_is_stuck(gpu: SmiGpu, declared: str | None, status: str) -> None:
    wanted = spec(gpu_clocks=declared) if declared else None

    assert statuses(look("clk.lost", rig(gpu), wanted)) == [status]
