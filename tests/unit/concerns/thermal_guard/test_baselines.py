"""How warm a card mostly is, and when it is told of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from rigops.concerns.thermal_guard.concern import THERMAL_GUARD
from rigops.concerns.thermal_guard.guard.baselines import LEAST_SAMPLES, Baselines
from rigops.concerns.thermal_guard.guard.host import Paths, read_baselines, write_baselines
from rigops.concerns.thermal_guard.guard.ladder import Held
from rigops.concerns.thermal_guard.guard.readings import GuardSettings
from tests.unit.concerns.thermal_guard.simulated import HOLD, A, Rig, uuid_of

if TYPE_CHECKING:
    from pathlib import Path

DAY: Final = 24 * 3600.0
SETTINGS: Final = GuardSettings(gpu=90.0, hold_s=HOLD)
KNOWN: Final = {uuid_of(A): {325: [60.0] * LEAST_SAMPLES}}


def rig_of(celsius: float, baselines: Baselines) -> Rig:
    rig = Rig(SETTINGS, baselines=baselines)
    rig.celsius = lambda _, __: celsius
    return rig


def test_it_learns_from_settled_temperatures_at_a_power_seldom() -> None:
    baselines = Baselines(HOLD)
    rig_of(60.0, baselines).run(DAY)

    assert baselines.samples == {uuid_of(A): {325: [60.0] * 4}}
    assert baselines.is_changed


def test_a_card_that_is_10_degrees_warmer_than_mostly_is_told_of_once() -> None:
    rig = rig_of(70.0, Baselines(HOLD, KNOWN))
    rig.run(DAY)

    assert (rig.told, rig.step, rig.set) == (["notify"], "notify", [])
    assert "it is at 70 °C with 325 to 350 W, and mostly at 60 °C" in rig.guard.why


def test_a_few_degrees_more_are_a_warm_day() -> None:
    rig = rig_of(69.0, Baselines(HOLD, KNOWN))
    rig.run(DAY)

    assert rig.said == []


def test_what_is_far_too_warm_is_not_learned() -> None:
    baselines = Baselines(HOLD, KNOWN)
    rig_of(75.0, baselines).run(3 * DAY)

    assert baselines.samples == KNOWN


def test_it_ends_when_the_card_is_as_warm_as_mostly() -> None:
    rig = rig_of(70.0, Baselines(HOLD, KNOWN))
    rig.run(DAY)
    rig.celsius = lambda _, __: 62.0
    rig.run(3600)

    assert rig.step == "none"


def test_nothing_is_said_before_enough_is_known() -> None:
    rig = rig_of(80.0, Baselines(HOLD, {uuid_of(A): {325: [60.0] * (LEAST_SAMPLES - 2)}}))
    rig.run(20 * HOLD + HOLD)

    assert rig.said == []


def test_an_idle_card_and_one_whose_power_has_just_changed_have_not_settled() -> None:
    baselines = Baselines(HOLD, KNOWN)
    rig = rig_of(75.0, baselines)
    for turn in range(2000):
        rig.more = {"draw": 340.0 if turn // 60 % 2 else 200.0}
        rig.turn()
    rig.more = {"draw": 30.0}
    rig.run(DAY)

    assert rig.said == []
    assert baselines.samples == KNOWN


def test_nothing_is_learned_while_the_guard_lowers_its_power() -> None:
    baselines = Baselines(HOLD)
    held = Held(uuid_of(A), A, rung=3, watts=250.0, before=350.0)
    rig = Rig(SETTINGS, baselines=baselines, held=(held,))
    rig.limits[uuid_of(A)] = 250.0
    rig.celsius = lambda _, __: 89.0
    rig.run(DAY)

    assert baselines.samples == {}


# ---- on the disk


def test_what_was_learned_is_read_again_and_goes_on(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path))
    learned = Baselines(HOLD, {"GPU-a": {325: [60.0, 61.5]}, "GPU-b": {}})
    write_baselines(paths, learned)

    found = read_baselines(paths, HOLD)
    assert (found.samples, found.is_changed) == (learned.samples, False)
    (kept,) = THERMAL_GUARD.records
    kept.parse(paths.baseline.read_text())  # it raises where rigops calls the record damaged
    assert kept.path == f"/{paths.baseline.relative_to(tmp_path)}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"schema": "rigops.thermal_guard_baseline/1"}',
        '{"schema": "rigops.thermal_guard_baseline/1", "cards": {"GPU-a": [1]}}',
        '{"schema": "rigops.thermal_guard_baseline/1", "cards": {"GPU-a": {"x": [1]}}}',
        '{"schema": "rigops.thermal_guard_baseline/2", "cards": {"GPU-a": {"1": [1]}}}',
    ],
)
def test_what_cannot_be_read_is_learned_anew(tmp_path: Path, text: str) -> None:
    paths = Paths(str(tmp_path))
    paths.baseline.parent.mkdir(parents=True)
    paths.baseline.write_text(text)

    assert read_baselines(paths, HOLD).samples == {}
