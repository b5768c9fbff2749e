from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rigops.doctor.registry import examine
from rigops.power import Neighbor
from rigops.probe.kernel_log.events import KernelLog, Xid
from rigops.probe.kernel_log.log_line import LogLine
from rigops.probe.sections import sensors, units, ups
from tests.unit.doctor.driven_cards import (
    FIRST,
    RTX3090,
    RTX5090,
    SECOND,
    look,
    rig,
    statuses,
)
from tests.unit.doctor.examining import catalog, check_of, snapshot_of, spec

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding
    from rigops.inventory.spec import RigSpec
    from rigops.probe.snapshot import HostSnapshot

QUIET = KernelLog(starts_at_boot=True)
DROPPED = "NVRM: Xid (PCI:0000:0a:00): 79, GPU has fallen off the bus."
LIMITER = "/etc/systemd/system/cap.service:ExecStart=/usr/bin/nvidia-smi -pl 300"
SCRIPT = "/usr/local/bin/quiet:nvidia-smi -i 0 -pl 250"


def xid(number: int, line: str) -> KernelLog:
    entry = LogLine(message=line, line=line)
    return replace(QUIET, xids=(Xid(number=number, address=FIRST, entry=entry),))


def budget(facts: HostSnapshot, declared: RigSpec | None) -> Finding:
    (found,) = look("pwr.budget", facts, declared)
    return found


def test_a_budget_needs_a_declaration() -> None:
    assert budget(rig(RTX3090), None).status == "skipped"


@pytest.mark.parametrize(
    ("declared", "status"),
    [
        (spec(psus=[1600], other_watts=180), "ok"),
        (spec(psus=[850], other_watts=180), "warn"),
        (spec(psus=[1300], other_watts=180), "warn"),
        (spec(psus=[1600], circuits="230V/16A"), "ok"),
        (spec(circuits="120V/15A"), "ok"),
        (spec(circuits="120V/16A"), "info"),
        (spec(circuits="120V/10A"), "warn"),
        (spec(psus=[1600], circuits={"A": "120V/15A", "B": "120V/15A"}), "unknown"),
    ],
)
def test_two_cards_of_350_watts_on(declared: RigSpec, status: str) -> None:
    assert budget(rig(RTX3090, RTX3090), declared).status == status


@pytest.mark.parametrize("amperes", [10, 16])
def test_a_breaker_that_nobody_sells_is_named(amperes: int) -> None:
    found = budget(rig(RTX3090, RTX3090), spec(circuits=f"120V/{amperes}A"))

    said = "15 A (1440 W for hours) or 20 A (1920 W for hours)" in found.summary
    assert said is (amperes == 16)


def test_declared_limits_count_once_they_are_applied() -> None:
    """2 x 350 x 1.71 + 250 = 1447 W in peaks now, and 2 x 250 x 1.71 + 250 = 1105 then."""
    facts = rig(RTX3090, RTX3090)

    found = budget(facts, spec(psus=[1300], gpu_power_limit=250))

    assert found.status == "warn"
    assert "1447 W in peaks of milliseconds" in found.summary
    assert "until the declared limits are applied, which fit" in found.summary
    assert found.fix is not None
    assert (found.fix.kind, found.fix.is_declared) == ("apply", True)
    lowered = replace(RTX3090, watts_limit=250.0, watts_requested=250.0)
    assert budget(rig(lowered, lowered), spec(psus=[1300], gpu_power_limit=250)).status == "ok"
    raised = spec(psus=[1300], gpu_power_limit=366)
    assert "1502 W in peaks" in budget(rig(lowered, lowered), raised).summary


def test_other_hosts_on_a_circuit_are_counted() -> None:
    """(2 x 250 + 250) / 0.9 = 833 W each, of 1440."""
    declared = spec(circuits={"A": "120V/15A"}, gpu_power_limit=250, gpus={"3090": 2})
    unknown = spec(circuits={"A": "120V/15A"}, gpus=2)

    def status(*others: RigSpec) -> str:
        neighbors = tuple(Neighbor(f"other{at}", one) for at, one in enumerate(others))
        lowered = replace(RTX3090, watts_limit=250.0, watts_requested=250.0)
        (found,) = examine(
            rig(lowered, lowered),
            declared,
            catalog(),
            checks=[check_of("pwr.budget")],
            neighbors=neighbors,
        )
        return found.status

    assert status() == "ok"
    assert status(declared) == "warn"
    assert status(unknown) == "unknown"


def test_what_a_ups_measures_is_evidence() -> None:
    said = ups.parse("== upsc main\nups.realpower: 312\nups.status: OL\n")

    found = budget(rig(RTX3090, RTX3090, ups=said), spec(psus=[1600]))

    assert [(one.section, one.line) for one in found.evidence] == [("ups", "ups.realpower: 312")]


def test_too_small_a_supply_is_a_failure_once_a_card_has_fallen_off_the_bus() -> None:
    declared, log = spec(psus=[850], other_watts=180), xid(79, DROPPED)
    facts = rig(RTX3090, RTX3090)

    for dropped in (
        snapshot_of(facts, kernel_log=log),
        snapshot_of(facts, kernel_log_previous=log),
    ):
        found = budget(dropped, declared)
        assert found.status == "fail"
        assert [one.line for one in found.evidence] == [DROPPED]
    assert budget(snapshot_of(facts, kernel_log=xid(13, "x")), declared).status == "warn"
    assert budget(snapshot_of(facts, kernel_log=log), spec(psus=[1600])).status == "ok"


def test_limits_that_fit_are_to_be_applied() -> None:
    found = budget(rig(RTX3090, RTX3090), spec(psus=[850], other_watts=180))

    assert found.fix is not None
    assert (found.fix.kind, found.fix.concern) == ("apply", "gpu_tuning")
    assert found.fix.declare is not None
    lowered = found.fix.declare["gpu_power_limit"]
    assert isinstance(lowered, int)
    again = replace(RTX3090, watts_limit=float(lowered))
    assert budget(rig(again, again), spec(psus=[850], other_watts=180)).status == "ok"


def test_where_no_limit_fits_something_must_be_bought() -> None:
    found = budget(rig(RTX5090, RTX5090), spec(psus=[850], other_watts=180))

    assert found.fix is not None
    assert found.fix.kind == "buy"


@pytest.mark.parametrize(
    "facts",
    [
        rig(RTX3090, replace(RTX3090, watts_limit=None)),
        snapshot_of(rig(RTX3090, RTX3090), nvidia_smi_xml=None),
        snapshot_of(rig(RTX3090, RTX3090), cut=["nvidia-smi-xml"]),
    ],
)
def test_a_budget_with_unknown_limits_is_not_well(facts: HostSnapshot) -> None:
    found = budget(facts, spec(psus=[1600]))

    assert (found.status, found.essential) == ("unknown", True)


@pytest.mark.parametrize(
    ("psus", "status", "said"),
    [
        ([1600], "skipped", "not declared"),
        (
            [{"watts": 850, "gpus": [FIRST], "host": True}, {"watts": 850, "gpus": [SECOND]}],
            "ok",
            "PSU",
        ),
        ([{"watts": 850, "gpus": [FIRST]}, {"watts": 850, "host": True}], "info", SECOND),
        ([{"watts": 850, "gpus": ["0000:0c:00.0"]}, 850], "info", "0000:0c:00.0"),
    ],
)
def test_which_supply_feeds_which_card(psus: list[object], status: str, said: str) -> None:
    (found,) = look("pwr.psu_split", rig(RTX3090, RTX3090), spec(psus=psus))

    assert found.status == status
    assert said in found.summary


def setters(text: str, *known: units.Unit) -> units.Units:
    return replace(units.parse(f"== grep nvidia-smi\n{text}\n"), units=known)


def writers(facts: HostSnapshot, declared: RigSpec | None = None) -> Finding:
    (found,) = look("pwr.units", facts, declared)
    return found


@pytest.mark.parametrize(
    ("text", "declared", "status"),
    [
        ("", None, "ok"),
        (LIMITER, None, "ok"),
        (f"{LIMITER}\n{SCRIPT}", None, "warn"),
        (LIMITER, 285, "warn"),
        (LIMITER.replace("cap", "rigops-gpu"), 285, "ok"),
        ("/usr/local/bin/quiet:nvidia-smi -pm 1", 285, "ok"),
        (f"{LIMITER}\n# {SCRIPT}", None, "ok"),
        (LIMITER.replace("300", "90"), None, "warn"),
    ],
)
def test_one_place_only_may_set_limits(text: str, declared: int | None, status: str) -> None:
    wanted = spec(gpu_power_limit=declared) if declared else None

    assert writers(rig(RTX3090, units=setters(text)), wanted).status == status


def test_a_unit_that_is_off_sets_nothing_unless_a_timer_starts_it() -> None:
    off = units.Unit(name="cap.service", line="", enabled="disabled", active="inactive")
    gone = units.Unit(name="cap.timer", line="", load="not-found")
    there = replace(gone, load="loaded")
    both = f"{LIMITER}\n{SCRIPT}"

    assert writers(rig(RTX3090, units=setters(both, off, gone))).status == "ok"
    assert writers(rig(RTX3090, units=setters(both, off, there))).status == "warn"


def test_a_unit_that_sets_less_than_the_card_takes_is_named() -> None:
    found = writers(rig(RTX5090, units=setters(LIMITER)))

    assert (found.status, found.subject) == ("warn", "/etc/systemd/system/cap.service")
    assert [one.line for one in found.evidence] == [LIMITER]
    assert found.fix is not None
    assert found.fix.declare == {"gpu_power_limit": 400}


@pytest.mark.parametrize(
    "facts",
    [
        rig(RTX3090),
        rig(RTX3090, units=units.parse("Id=tuned.service\nLoadState=not-found\n")),
        rig(RTX3090, units=setters(""), cut=["units"]),
        rig(RTX3090, units=setters("find: '/var/spool/cron': Permission denied")),
        snapshot_of(rig(RTX3090, units=setters(LIMITER)), nvidia_smi_xml=None),
    ],
)
def test_places_that_were_not_searched_are_not_well(facts: HostSnapshot) -> None:
    assert writers(facts).status == "unknown"


def test_cables() -> None:
    def cable(facts: HostSnapshot) -> Finding:
        (found,) = look("pwr.cable", facts)
        return found

    well = rig(RTX3090, kernel_log=QUIET)

    assert cable(well).status == "ok"
    assert (
        cable(snapshot_of(well, kernel_log=xid(54, "NVRM: Xid 54"))).evidence[0].line
        == "NVRM: Xid 54"
    )
    assert cable(snapshot_of(well, kernel_log=None)).status == "unknown"
    assert cable(snapshot_of(well, nvidia_smi_xml=None)).status == "unknown"
    late = replace(QUIET, starts_at_boot=False)
    assert cable(snapshot_of(well, kernel_log=late)).status == "unknown"


@pytest.mark.parametrize(
    ("reasons", "status"),
    [
        (frozenset({"gpu_idle"}), "ok"),
        (frozenset({"hw_slowdown", "hw_power_brake"}), "fail"),
        (None, "skipped"),
    ],
)
def test_the_power_brake(reasons: frozenset[str] | None, status: str) -> None:
    assert statuses(look("pwr.brake", rig(replace(RTX3090, throttle=reasons)))) == [status]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("+12V:  +12.10 V  (min = +10.20 V)", "ok"),
        ("+12V:  +11.40 V", "ok"),
        ("+12V:  +11.39 V", "fail"),
        ("+12V:  +12.60 V", "ok"),
        ("+12V:  +12.70 V", "warn"),
        ("P12V  | 11.21 Volts | cr", "fail"),
        ("+12V:  +1.02 V", "skipped"),
        ("-12V:  -11.20 V", "skipped"),
        ("in1:  +11.10 V", "skipped"),
        ("+12V:  N/A", "skipped"),
    ],
)
def test_the_12_volt_rail(line: str, status: str) -> None:
    facts = snapshot_of(sensors=sensors.parse(f"nct6798-isa-0290\nAdapter: ISA adapter\n{line}\n"))

    found = look("pwr.sensor12v", facts)

    assert statuses(found) == [status]
    cut = snapshot_of(facts, cut=["sensors"])
    expected = status if status in {"fail", "warn"} else "unknown"
    assert statuses(look("pwr.sensor12v", cut)) == [expected]


def test_a_rail_that_is_well_now_and_was_not_before() -> None:
    log = "  5 | 01/02/2026 | 10:11:12 | Power Supply #0x51 | Failure detected | Asserted"
    text = f"== ipmitool sdr\n12V | 12.06 Volts | ok\n== ipmitool sel list last 50\n{log}\n"

    (found,) = look("pwr.sensor12v", snapshot_of(sensors=sensors.parse(text)))

    assert found.status == "info"
    assert [one.line for one in found.evidence] == [log.strip()]


def test_sensors_that_were_not_read_are_not_well() -> None:
    assert statuses(look("pwr.sensor12v", snapshot_of())) == ["unknown"]
