from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rigops.inventory.spec import choice as per_gpu
from rigops.probe.smi.report import SmiGpu, SmiReport
from tests.unit.doctor.driven_cards import (
    FIRST,
    RTX3090,
    RTX5090,
    SECOND,
    SXM2,
    look,
    rig,
    statuses,
)
from tests.unit.doctor.examining import snapshot_of, spec

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding
    from rigops.inventory.spec import RigSpec
    from rigops.probe.snapshot import HostSnapshot

OTHER_UUID = "GPU-22222222-2222-2222-2222-222222222222"
CAPPED = replace(RTX3090, watts_limit=285.0, watts_requested=285.0)


def limit(facts: HostSnapshot, declared: RigSpec | None = None) -> list[Finding]:
    return look("pwr.limit", facts, declared)


def declare(value: object) -> RigSpec:
    return spec(gpu_power_limit=value)


@pytest.mark.parametrize(
    ("gpu", "declared", "status"),
    [
        (RTX3090, None, "ok"),
        (CAPPED, None, "info"),
        (replace(RTX3090, watts_limit=350.9), None, "ok"),
        (replace(RTX3090, watts_limit=351.1), None, "info"),
        (replace(RTX3090, watts_limit=366.0), None, "info"),
        (CAPPED, 285, "ok"),
        (replace(CAPPED, watts_limit=285.9), 285, "ok"),
        (replace(CAPPED, watts_limit=286.1), 285, "warn"),
        (RTX3090, 285, "warn"),
        (replace(RTX3090, watts_limit=280.0, watts_requested=280.0), "80%", "ok"),
        (replace(RTX3090, watts_limit=280.0), "80%", "warn"),
        (replace(CAPPED, watts_limit=250.0), 285, "info"),
        (RTX3090, "80%", "warn"),
        (RTX3090, 90, "fail"),
        (RTX3090, 400, "fail"),
        (replace(RTX3090, watts_limit=None), 285, "warn"),
        (replace(RTX3090, watts_limit=None, watts_requested=None), 285, "unknown"),
        (replace(RTX3090, watts_default=None), "80%", "fail"),
        (replace(RTX3090, watts_default=None), None, "unknown"),
        (RTX5090, 300, "fail"),
        (RTX5090, 400, "warn"),
        (replace(RTX5090, watts_limit=300.0), None, "warn"),
        (replace(RTX5090, watts_limit=398.9), None, "warn"),
        (replace(RTX5090, watts_limit=399.1), None, "info"),
        (replace(RTX5090, watts_requested=300.0), None, "warn"),
    ],
)
def test_the_limit_of_a_card(gpu: SmiGpu, declared: object, status: str) -> None:
    found = limit(rig(gpu), None if declared is None else declare(declared))

    assert statuses(found) == [status]


def test_a_limit_below_what_the_card_takes_is_to_be_declared_anew() -> None:
    (found,) = limit(rig(RTX3090, RTX5090), declare({"3090": 350, "5090": 300}))

    assert (found.id, found.status, found.subject) == ("pwr.limit", "fail", f"gpu {SECOND}")
    assert "400 to 600 W" in found.summary
    assert found.data["in_force"] == 575
    fix = found.fix
    assert fix is not None
    assert fix.kind == "hands"
    assert fix.declare == {"gpu_power_limit": {"3090": 350, "5090": 400}}
    assert fix.text == "declare one of those"


def test_one_value_for_all_is_replaced_by_one_that_works() -> None:
    (found,) = limit(rig(RTX5090), declare(700))

    assert found.fix is not None
    assert found.fix.declare == {"gpu_power_limit": 600}


def test_a_limit_that_has_drifted_is_applied_again() -> None:
    (found,) = limit(rig(CAPPED, RTX3090), declare("285W"))

    assert (found.status, found.subject) == ("warn", f"gpu {SECOND}")
    assert [one.line for one in found.evidence] == [RTX3090.line]
    fix = found.fix
    assert fix is not None
    assert (fix.kind, fix.concern) == ("apply", "gpu_tuning")
    assert fix.declare == {"gpu_power_limit": 285}


def test_a_laptop_card_that_tells_no_limit_is_not_judged() -> None:
    silent = replace(
        RTX3090, watts_limit=None, watts_requested=None, watts_default=None, watts_min=None
    )

    assert statuses(limit(rig(silent))) == ["skipped"]
    assert [(one.status, one.subject) for one in limit(rig(RTX3090, silent))] == [
        ("unknown", f"gpu {SECOND}")
    ]


def test_a_limit_for_a_laptop_card_is_refused_as_plan_refuses_it() -> None:
    silent = replace(
        RTX3090,
        watts_limit=None,
        watts_requested=None,
        watts_default=None,
        watts_min=None,
        watts_max=None,
    )

    (found,) = limit(rig(silent), declare(285))

    assert (found.status, found.fix and found.fix.kind) == ("fail", "hands")
    assert "takes no power limit" in found.summary


def test_while_another_card_refuses_its_limit_apply_is_not_what_to_do() -> None:
    (refused, drifted) = limit(rig(RTX5090, RTX3090), declare({"5090": 300, "3090": 285}))

    assert (refused.status, drifted.status) == ("fail", "warn")
    assert drifted.fix
    assert drifted.fix.kind == "hands"
    assert "accepts 400 to 600 W" in drifted.fix.text


def test_a_host_without_cards_has_no_limits() -> None:
    assert statuses(limit(rig())) == ["skipped"]


def test_only_what_cannot_be_told_of_a_declared_limit_is_essential() -> None:
    facts = snapshot_of(rig(RTX3090), nvidia_smi_xml=None)

    assert [one.essential for one in limit(facts, declare(285))] == [True]
    assert [one.essential for one in limit(facts)] == [False]


@pytest.mark.parametrize(
    "report",
    [
        None,
        SmiReport(),
        SmiReport(failure="no-driver", failure_lines=("NVIDIA-SMI has failed",)),
        SmiReport(gpus=(replace(RTX3090, address=FIRST),)),
        SmiReport(gpus=(replace(RTX3090, address=FIRST),), is_complete=True),
        SmiReport(gpus=(RTX3090, RTX3090), attached=2, is_complete=True),
    ],
)
def test_what_nvidia_smi_does_not_tell_is_not_well(report: SmiReport | None) -> None:
    facts = snapshot_of(rig(RTX3090, RTX3090), nvidia_smi_xml=report)

    assert statuses(limit(facts)) == ["unknown"]


def test_a_whole_report_of_fewer_cards_than_are_attached_is_not_well() -> None:
    alone = replace(RTX3090, address=FIRST)
    facts = snapshot_of(nvidia_smi_xml=SmiReport(gpus=(alone,), attached=4, is_complete=True))

    assert statuses(limit(facts)) == ["unknown"]


def test_an_answer_that_was_cut_off_or_late_is_not_well() -> None:
    cut = snapshot_of(rig(RTX3090), cut=frozenset({"nvidia-smi-xml"}))
    late = snapshot_of(timed_out=frozenset({"nvidia-smi-xml"}))

    assert statuses(limit(cut)) == ["unknown"]
    assert "in time" in limit(late)[0].summary


def test_the_closest_selector_wins() -> None:
    uuid = str(RTX3090.uuid)
    choices: dict[str, int] = {
        "default": 101,
        "RTX": 102,
        "3090": 103,
        "GeForce RTX 3090": 104,
        FIRST: 105,
    }
    facts = rig(RTX3090)
    said: list[float] = []
    for name in ("default", "RTX", "3090", "GeForce RTX 3090", FIRST, uuid):
        known = {key: value for key, value in choices.items() if value <= 101 + len(said)}
        given = {**known, uuid: 106} if name == uuid else known
        (found,) = limit(facts, declare(given))
        said.append(float(str(found.data["declared"])))

    assert said == [101, 102, 103, 104, 105, 106]


def test_the_order_of_the_selectors_does_not_matter() -> None:
    (found,) = limit(rig(RTX3090), declare({FIRST: 105, "3090": 103, "default": 101}))

    assert found.data["declared"] == 105


def test_a_selector_of_another_card_is_no_declaration_for_this_one() -> None:
    assert statuses(limit(rig(RTX3090), declare({"5090": 500}))) == ["ok"]


@pytest.mark.parametrize(
    ("uuids", "status"),
    [
        ((RTX3090.uuid, OTHER_UUID), "ok"),
        (("GPU-x", "GPU-y"), "unknown"),
        ((None, None), "unknown"),
    ],
)
def test_uuids_that_are_no_cards_leave_it_open_which_value_is_meant(
    uuids: tuple[str | None, str | None], status: str
) -> None:
    facts = rig(*(replace(CAPPED, uuid=uuid) for uuid in uuids))

    found = limit(facts, declare({str(RTX3090.uuid): 285, "default": 285}))

    assert set(statuses(found)) == {status}


def test_a_declaration_is_written_as_it_stands_in_an_inventory() -> None:
    wishes = declare({"3090": 285, SXM2.name: "80%"}).gpu_power_limit
    assert wishes is not None

    assert per_gpu.declaration(wishes, lambda one: one.watts or one.percent) == {
        "3090": 285,
        SXM2.name: 80,
    }
