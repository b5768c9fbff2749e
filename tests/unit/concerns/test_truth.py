"""Whether a host is as declared has one answer, whoever is asked: plan, doctor or the self-check.

Each row is a declaration, what the card shows, and what rigops has recorded there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rigops.concerns.gpu_tuning import decide, operations, record
from rigops.concerns.thermal_guard import record as guard
from rigops.facts.sections import Boot, RigopsState
from rigops.probe.sections import boot, rigops_state
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from tests.unit.concerns import asked
from tests.unit.concerns.asked import ANSWERS, BOOT, Status
from tests.unit.doctor.driven_cards import RTX3090, SXM2, look, rig
from tests.unit.doctor.examining import catalog, spec
from tests.unit.hostside.test_gpu_tuning_program import Rig

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rigops.concerns.gpu_tuning.decide import TunedCard, Tuning
    from rigops.doctor.finding import Finding
    from rigops.inventory.spec import RigSpec
    from rigops.plan.change import Change
    from rigops.probe.smi.report import SmiGpu

ADDRESS: Final = "0000:0a:00.0"
OTHER: Final = "GPU-22222222-2222-2222-2222-222222222222"
CARD: Final = replace(RTX3090, persistence=True)
CHECKS: Final = {
    "persistence": "drv.persist",
    "power limit": "pwr.limit",
    "graphics clocks": "clk.app",
    "memory clocks": "clk.app",
    "application clocks": "clk.app",
}


@dataclass(frozen=True)
class Row:
    """`was_set`: value and value before of what rigops has set since the boot, by setting.

    `guarded`: watts to which the thermal guard has lowered the card. `recorded`: the UUID, as of
    a report that is redacted, and the address that the records of both have.
    """

    setting: str
    expected: Status
    declared: Mapping[str, object] = field(default_factory=dict)
    card: SmiGpu = CARD
    was_set: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    guarded: float | None = None
    others: tuple[SmiGpu, ...] = ()
    recorded: tuple[str, str] = (str(CARD.uuid), ADDRESS)
    boot_id: str = BOOT  # of what was set

    @property
    def tuning(self) -> Tuning:
        return decide.resolve(self.spec, self.cards)

    @property
    def cards(self) -> tuple[TunedCard, ...]:
        return decide.find_cards(rig(self.card, *self.others)[SMI].or_empty, catalog())

    @property
    def spec(self) -> RigSpec:
        return spec(**self.declared)

    @property
    def records(self) -> dict[str, str]:
        uuid, address = self.recorded
        entries = [
            {"card": uuid, "address": address, "setting": name, "value": value, "was": was}
            for name, (value, was) in self.was_set.items()
        ]
        head = f'{{"schema": "rigops.gpu_tuning/1", "boot_id": "{self.boot_id}", "settings": ['
        lines = ",\n".join(json.dumps(one) for one in entries)
        found = {record.PATH: f"{head}\n{lines}\n]}}\n"} if entries else {}
        if self.guarded is None:
            return found
        card = {
            "uuid": uuid, "address": address, "step": "lower-power", "why": "it is at 90 °C",
            "watts": self.guarded, "watts_before": 350.0,
        }  # fmt: skip
        other = {**card, "uuid": "GPU-1", "address": "0000:ff:00.0", "watts": None}
        state = {
            "schema": "rigops.thermal_guard/1", "step": "lower-power", "why": "it is at 90 °C",
            "since": "2026-11-25T02:00:00Z", "suspended": "", "uptime_s": 1.0,
            "cards": [other, card],
        }  # fmt: skip
        return {**found, guard.PATH: json.dumps(state, indent=1)}


def power(limit: float | None, in_force: float | None = None, **more: Any) -> SmiGpu:
    return replace(CARD, watts_requested=limit, watts_limit=in_force or limit, **more)


def clocks(graphics: int | None = 210, memory: int | None = 405) -> SmiGpu:
    return replace(CARD, mhz_graphics=graphics, mhz_memory=memory)


V100: Final = replace(
    SXM2,
    persistence=True,
    mhz_max_graphics=1530,
    mhz_max_memory=877,
    listed_mhz={877: (1530, 1290, 1005, 135)},
)
UNREPORTED: Final = replace(
    V100,
    mhz_application_memory=None,
    mhz_application_graphics=None,
    raw={"applications_clocks/graphics_clock": "Requested functionality has been deprecated"},
)
LIMIT: Final = {"gpu_power_limit": 285}
GRAPHICS: Final = {"gpu_clocks": "graphics=210,1410"}
MEMORY: Final = {"gpu_clocks": "memory=405,5001"}
APPLICATION: Final = {"gpu_clocks": "application=877,1005"}
REDACTED: Final = (OTHER, ADDRESS)
MOVED: Final = (str(CARD.uuid), "0000:0c:00.0")
LOCKED: Final = {"graphics": ("210,1410", "-")}
MEMORY_LOCKED: Final = {"memory": ("405,5001", "-")}

ROWS: Final[Mapping[str, Row]] = {
    # persistence
    "persistence is not declared": Row("persistence", "absent"),
    "persistence is on, as declared": Row(
        "persistence", "as declared", {"gpu_persistence": True}
    ),
    "persistence is off, as declared": Row(
        "persistence", "as declared", {"gpu_persistence": False}, replace(CARD, persistence=False)
    ),
    "persistence is off, declared on": Row(
        "persistence", "differs", {"gpu_persistence": True}, replace(CARD, persistence=False)
    ),
    "persistence is on, declared off": Row("persistence", "differs", {"gpu_persistence": False}),
    "persistence is off beside a declared limit": Row(
        "persistence", "differs", LIMIT, power(285, persistence=False)
    ),
    "persistence is declared off beside a limit": Row(
        "persistence", "refused", {**LIMIT, "gpu_persistence": False}
    ),
    "persistence is left over": Row(
        "persistence", "left over", {"gpu_power_limit": {"0000:0b:00.0": 285}}, CARD,
        {"persistence": ("1", "0")}, others=(replace(power(285), uuid=OTHER),),
    ),
    "persistence of a card that has none": Row(
        "persistence", "absent", {"gpu_persistence": True}, replace(CARD, persistence=None)
    ),
    # the power limit
    "limit is not declared": Row("power limit", "absent"),
    "limit is as declared": Row("power limit", "as declared", LIMIT, power(285)),
    "limit is off by less than a watt": Row("power limit", "as declared", LIMIT, power(285.9)),
    "limit is off by a watt": Row("power limit", "as declared", LIMIT, power(286)),
    "limit is off by more than a watt": Row("power limit", "differs", LIMIT, power(286.1)),
    "limit is another one": Row("power limit", "differs", LIMIT, power(250)),
    "limit in percent of the default": Row(
        "power limit", "as declared", {"gpu_power_limit": "80%"}, power(280)
    ),
    "limit that the card has dropped at its default": Row("power limit", "differs", LIMIT),
    "limit is requested, and the card keeps a lower one in force": Row(
        "power limit", "held", LIMIT, power(285, 250)
    ),
    "limit is requested, and a higher one is in force": Row(
        "power limit", "differs", LIMIT, power(285, 350)
    ),
    "limit is requested, and one in force is lower by more than a watt": Row(
        "power limit", "held", LIMIT, power(285, 283.9)
    ),
    "limit is requested, and one in force is higher by less than a watt": Row(
        "power limit", "as declared", LIMIT, power(285, 285.9)
    ),
    "limit is requested, and one in force is higher by more than a watt": Row(
        "power limit", "differs", LIMIT, power(285, 286.1)
    ),
    "limit in force is as declared, and another one is requested": Row(
        "power limit", "differs", LIMIT, power(350, 285)
    ),
    "limit in force alone is reported, as declared": Row(
        "power limit", "as declared", LIMIT, replace(power(285), watts_requested=None)
    ),
    "limit in force alone is reported, another one": Row(
        "power limit", "differs", LIMIT, replace(power(250), watts_requested=None)
    ),
    "limit requested alone is reported, another one": Row(
        "power limit", "differs", LIMIT, replace(CARD, watts_limit=None)
    ),
    "limit is not reported": Row("power limit", "unknown", LIMIT, power(None)),
    "limit is lowered by the thermal guard": Row(
        "power limit", "held", LIMIT, power(228), guarded=228.0
    ),
    "limit is lowered by the thermal guard, whose record has another UUID": Row(
        "power limit", "held", LIMIT, power(228), guarded=228.0, recorded=REDACTED
    ),
    "limit is lowered by the thermal guard, and the card was elsewhere then": Row(
        "power limit", "held", LIMIT, power(228), guarded=228.0, recorded=MOVED
    ),
    "limit is lowered by the thermal guard, and off by less than a watt": Row(
        "power limit", "held", LIMIT, power(228.9), guarded=228.0
    ),
    "limit is neither as declared nor the thermal guard's": Row(
        "power limit", "differs", LIMIT, power(229.1), guarded=228.0
    ),
    "limit at the lower end": Row("power limit", "differs", {"gpu_power_limit": 100}),
    "limit at the upper end": Row("power limit", "differs", {"gpu_power_limit": 366}),
    "limit is above the card's range": Row("power limit", "refused", {"gpu_power_limit": 367}),
    "limit is below the card's range": Row("power limit", "refused", {"gpu_power_limit": 99}),
    "limit is below the card's range by less than a watt": Row(
        "power limit", "refused", {"gpu_power_limit": 99.5}
    ),
    "limit of a card that takes none": Row(
        "power limit", "refused", LIMIT,
        replace(power(None), watts_default=None, watts_min=None, watts_max=None),
    ),
    "limit in percent of a default that is not reported": Row(
        "power limit", "refused", {"gpu_power_limit": "80%"}, replace(CARD, watts_default=None)
    ),
    "limit is left over": Row(
        "power limit", "left over", {"gpu_persistence": True}, power(285),
        {"power": ("285", "350.00")},
    ),
    # a lock of the graphics clock
    "graphics clocks are not declared": Row("graphics clocks", "absent", LIMIT, power(285)),
    "graphics lock was set, and the card is idle": Row(
        "graphics clocks", "as declared", GRAPHICS, clocks(), LOCKED
    ),
    "graphics lock was set, and the clock is above it by a step": Row(
        "graphics clocks", "as declared", GRAPHICS, clocks(1425), LOCKED
    ),
    "graphics lock was set, and the clock is above it by more than a step": Row(
        "graphics clocks", "differs", GRAPHICS, clocks(1426), LOCKED
    ),
    "graphics lock was set, and the clock is above it by three steps": Row(
        "graphics clocks", "differs", GRAPHICS, clocks(1455), LOCKED
    ),
    "graphics lock was not set in this boot, and the card is idle": Row(
        "graphics clocks", "differs", GRAPHICS
    ),
    "graphics lock was not set in this boot, and the clock is above it": Row(
        "graphics clocks", "differs", GRAPHICS, clocks(1905)
    ),
    "graphics lock was set in another boot": Row(
        "graphics clocks", "differs", GRAPHICS, clocks(), LOCKED, boot_id="another"
    ),
    "graphics lock was set, by a record with another UUID": Row(
        "graphics clocks", "as declared", GRAPHICS, clocks(), LOCKED, recorded=REDACTED
    ),
    "graphics lock was set, and the card was elsewhere then": Row(
        "graphics clocks", "as declared", GRAPHICS, clocks(), LOCKED, recorded=MOVED
    ),
    "graphics lock was set to something else": Row(
        "graphics clocks", "differs", GRAPHICS, clocks(), {"graphics": ("210,1300", "-")}
    ),
    "graphics lock was set, and the clock is not reported": Row(
        "graphics clocks", "unknown", GRAPHICS, clocks(None), LOCKED
    ),
    "graphics lock was not set in this boot, and the clock is not reported": Row(
        "graphics clocks", "differs", GRAPHICS, clocks(None)
    ),
    "graphics lock at the highest clock": Row(
        "graphics clocks", "differs", {"gpu_clocks": "graphics=210,2100"}
    ),
    "graphics lock below what the card lists": Row(
        "graphics clocks", "refused", {"gpu_clocks": "graphics=100,1005"}, V100
    ),
    "graphics lock above what the card can run": Row(
        "graphics clocks", "refused", {"gpu_clocks": "graphics=210,2500"}
    ),
    "graphics lock is left over": Row(
        "graphics clocks", "left over", {"gpu_persistence": True}, clocks(), LOCKED
    ),
    # a lock of the memory clock
    "memory lock was set, and the card is idle": Row(
        "memory clocks", "as declared", MEMORY, clocks(), MEMORY_LOCKED
    ),
    "memory lock was set, and the clock is above it by less than its step": Row(
        "memory clocks", "as declared", MEMORY, clocks(memory=5030), MEMORY_LOCKED
    ),
    "memory lock was set, and the clock is above it by more": Row(
        "memory clocks", "differs", MEMORY, clocks(memory=5052), MEMORY_LOCKED
    ),
    "memory lock was not set in this boot": Row("memory clocks", "differs", MEMORY),
    "memory lock was set, and the clock is not reported": Row(
        "memory clocks", "unknown", MEMORY, clocks(memory=None), MEMORY_LOCKED
    ),
    "memory lock of a card that cannot lock it": Row(
        "memory clocks", "refused", {"gpu_clocks": "memory=877"}, V100
    ),
    "memory lock is left over": Row(
        "memory clocks", "left over", GRAPHICS, clocks(), {**LOCKED, **MEMORY_LOCKED}
    ),
    # application clocks
    "application clocks are as declared": Row(
        "application clocks", "as declared", APPLICATION,
        replace(V100, mhz_application_graphics=1005),
    ),
    "application clocks are others": Row("application clocks", "differs", APPLICATION, V100),
    "application clocks are not reported, and were set in this boot": Row(
        "application clocks", "as declared", APPLICATION, UNREPORTED,
        {"application": ("877,1005", "-")},
    ),
    "application clocks are not reported, and were not set in this boot": Row(
        "application clocks", "differs", APPLICATION, UNREPORTED
    ),
    "application clocks that the card does not list": Row(
        "application clocks", "refused", {"gpu_clocks": "application=877,1004"}, V100
    ),
    "application clocks of a card that has none": Row(
        "application clocks", "refused", {"gpu_clocks": "application=9751,1410"}
    ),
    "application clocks are left over": Row(
        "application clocks", "left over", {"gpu_persistence": True},
        replace(V100, mhz_application_graphics=1005), {"application": ("877,1005", "877,1290")},
    ),
}  # fmt: skip


# ---- three who are asked


def changes(row: Row, patch: pytest.MonkeyPatch) -> list[Change] | None:
    """What the operation announces. None: blocked."""
    tuning = row.tuning
    if tuning.blockers:
        return None
    state = rigops_state.RigopsState(records=row.records)
    facts: asked.Facts = {RigopsState: state, Boot: boot.Boot(boot_id=BOOT)}
    asked.collected(patch, operations, facts)
    states = partial(operations._judged, tuning.wanted, row.cards)
    return asked.announced(patch, operations._settings(states))


def by_plan(row: Row, patch: pytest.MonkeyPatch) -> str:
    found = changes(row, patch)
    return asked.by_plan(found and [one for one in found if one.subject.endswith(row.setting)])


def findings(row: Row, check: str) -> list[Finding]:
    state = rigops_state.RigopsState(records=row.records)
    facts = rig(
        row.card, *row.others, rigops_state=state, boot=boot.Boot(boot_id=BOOT, uptime_s=1010.0)
    )
    return look(check, facts, row.spec)


def by_doctor(row: Row) -> str:
    (found,) = findings(row, CHECKS[row.setting])
    return asked.by_doctor(found)


def by_self_check(row: Row, root: Path) -> str:
    """Of the packed program, which runs the other one, which asks nvidia-smi."""
    host = tabled(row, root)
    if host is None:
        return "not asked"
    program = host.write("gpu_tuning", f"#!/bin/sh\n{host.text('gpu_tuning', {})}")
    program.chmod(0o755)
    host.write("etc/rigops/self_check", f"check gpu_tuning {program} check {root}\n")
    host.write("proc/uptime", "90000.00 1.00")
    return asked.by_self_check(root, CHECKS[row.setting], f"gpu {ADDRESS}")


def tabled(row: Row, root: Path) -> Rig | None:
    """A host with the table of this declaration. None where there is no table."""
    tuning = row.tuning
    if tuning.blockers or not row.declared:
        return None
    host = Rig(root, "dash")
    host.boot(BOOT)
    host.declare(*(one.line for one in tuning.wanted))
    for path, text in row.records.items():
        host.write(path.lstrip("/"), text)
    for card in (one.smi for one in row.cards):
        for name, value in {
            "pci.bus_id": f"0000{card.address}".upper(),
            "persistence_mode": {True: "Enabled", False: "Disabled", None: "[N/A]"}[
                card.persistence
            ],
            "power.limit": _shown(card.watts_requested),
            "enforced.power.limit": _shown(card.watts_limit),
            "power.default_limit": _shown(card.watts_default),
            "clocks.gr": _shown(card.mhz_graphics),
            "clocks.mem": _shown(card.mhz_memory),
            "clocks.applications.mem": _shown(card.mhz_application_memory),
            "clocks.applications.gr": _shown(card.mhz_application_graphics),
        }.items():
            host.put(str(card.uuid), name, value)
    return host


def _shown(value: float | None) -> str:
    if value is None:
        return "[N/A]"
    return str(value) if isinstance(value, int) else f"{value:.2f}"


@pytest.mark.parametrize("name", ROWS)
def test_plan_and_doctor_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROWS[name]

    assert (by_plan(row, monkeypatch), by_doctor(row)) == ANSWERS[row.expected][:2]


@pytest.mark.parametrize(
    "name", asked.one_of_a_kind(ROWS, lambda row: (row.setting, row.expected, bool(row.guarded)))
)
def test_the_self_check_agrees(name: str, tmp_path: Path) -> None:
    assert by_self_check(ROWS[name], tmp_path) == ANSWERS[ROWS[name].expected][2]


# ---- what doctor says that apply does, apply does


def _cards() -> some.SearchStrategy[SmiGpu]:
    watts = some.sampled_from([None, 228.0, 250.0, 284.0, 285.0, 286.0, 286.1, 350.0])
    return some.builds(
        replace,
        some.sampled_from([CARD, V100, UNREPORTED, replace(CARD, watts_min=300.0)]),
        persistence=some.sampled_from([True, False, None]),
        watts_requested=watts,
        watts_limit=watts,
        mhz_graphics=some.sampled_from([None, 210, 1410, 1425, 1426, 1905]),
        mhz_memory=some.sampled_from([None, 405, 5001, 5051, 5052, 9751]),
    )


def _declarations() -> some.SearchStrategy[dict[str, object]]:
    keys = {
        "gpu_persistence": some.booleans(),
        "gpu_power_limit": some.sampled_from([285, "80%", 99, {"3090": 285}, {ADDRESS: 250}]),
        "gpu_clocks": some.sampled_from(
            ["graphics=210,1410", "graphics=210,1410 memory=405,5001", "application=877,1005",
             {"V100": "application=877,1005", "default": "memory=405,5001"}]
        ),
    }  # fmt: skip
    return some.fixed_dictionaries({}, optional=keys).filter(bool)


_SET: Final = some.dictionaries(
    some.sampled_from(["persistence", "power", "graphics", "memory", "application"]),
    some.sampled_from([("1", "0"), ("285", "350.00"), ("210,1410", "-"), ("405,5001", "-"),
                       ("877,1005", "877,1290")]),
)  # fmt: skip


@given(_declarations(), _cards(), _SET, some.sampled_from([None, 228.0]), some.none() | _cards())
def test_doctor_says_apply_if_and_only_if_plan_has_a_change(
    declared: dict[str, object],
    card: SmiGpu,
    was_set: dict[str, tuple[str, str]],
    guarded: float | None,
    other: SmiGpu | None,
) -> None:
    others = () if other is None else (replace(other, uuid=OTHER),)
    row = Row("", "absent", declared, card, was_set, guarded, others)
    with pytest.MonkeyPatch.context() as patch:
        found = changes(row, patch) or ()
    words = [one.subject.removeprefix("GPU ").partition(" ") for one in found]
    addresses = [one.identity.address for one in row.cards]

    by_apply = {
        (address, check)
        for check in sorted(set(CHECKS.values()))
        for one in findings(row, check)
        if one.fix and one.fix.by_apply and one.fix.is_declared
        for address in addresses
        if one.subject in {"host", f"gpu {address}"}
    }

    assert by_apply == {(address, CHECKS[setting]) for address, _, setting in words}


def test_a_lock_is_unknown_where_the_records_were_not_collected_whole() -> None:
    row = Row("graphics clocks", "unknown", GRAPHICS, clocks(), LOCKED)
    state = rigops_state.RigopsState(records=row.records)
    facts = rig(row.card, rigops_state=state, boot=boot.Boot(boot_id=BOOT), cut=("rigops-state",))

    (found,) = look("clk.app", facts, row.spec)

    assert found.status == "unknown"
