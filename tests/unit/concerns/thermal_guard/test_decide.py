"""What is told before the guard is installed, and what blocks it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from rigops.concerns.registry import read
from rigops.concerns.thermal_guard import decide
from rigops.concerns.thermal_guard.operations import parse
from rigops.probe.smi.report import SmiGpu, SmiReport

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec

PYTHON: Final = (3, 11)
GEFORCE: Final = SmiGpu(
    address="0000:0a:00.0",
    name="NVIDIA GeForce RTX 3090",
    celsius=50,
    celsius_slowdown=95,
    watts_limit=350,
    watts_requested=350,
)
TESLA: Final = replace(GEFORCE, address="0000:42:00.0", name="Tesla V100", memory_celsius=40)
BLACKWELL: Final = replace(GEFORCE, celsius_left=40, celsius_slowdown=None)


def declare(limit: object, **more: object) -> RigSpec:
    return read({"thermal_limit": limit, "notify": "true", **more})


def blockers(declared: RigSpec, *gpus: SmiGpu, python: tuple[int, ...] = PYTHON) -> list[str]:
    return list(decide.blockers(declared, python, SmiReport(gpus=gpus, is_complete=True)))


def notices(declared: RigSpec, *gpus: SmiGpu) -> str:
    return "\n".join(decide.notices(declared, SmiReport(gpus=gpus, is_complete=True)))


@pytest.mark.parametrize("python", [(), (3, 7)])
def test_without_a_python_that_is_new_enough_it_is_blocked_with_the_fix(
    python: tuple[int, ...],
) -> None:
    (reason,) = blockers(declare(83), GEFORCE, python=python)

    assert reason.endswith("fix: apt-get install python3")


def test_the_other_keys_need_a_temperature() -> None:
    (reason,) = blockers(read({"thermal_hold": 10}), GEFORCE)

    assert 'fix: declare "thermal_limit": 83' in reason


def test_a_margin_blocks_where_a_card_reports_none() -> None:
    (reason,) = blockers(declare({"margin": 5}), GEFORCE, BLACKWELL)

    assert "GPU 0000:0a:00.0 (NVIDIA GeForce RTX 3090) reports no T.Limit margin" in reason
    assert blockers(declare({"margin": 5}), BLACKWELL) == []


def test_memory_alone_blocks_where_nothing_would_be_watched() -> None:
    assert "nothing would be watched" in blockers(declare({"memory": 100}), GEFORCE, TESLA)[0]
    assert blockers(declare({"memory": 100}), TESLA) == []
    assert blockers(declare({"memory": 100, "gpu": 83}), GEFORCE) == []


def test_without_a_driver_nothing_is_known_of_the_cards_and_it_is_installed() -> None:
    report = SmiReport(failure="no-driver")

    assert list(decide.blockers(declare({"margin": 5, "memory": 90}), PYTHON, report)) == []
    said = "\n".join(decide.notices(declare(83), report))
    assert "the guard waits until one does" in said


def test_a_limit_at_the_slowdown_temperature_is_noticed() -> None:
    assert "slows down by itself from 95 °C" in notices(declare(95), GEFORCE)
    assert notices(declare(94), GEFORCE) == ""


def test_a_threshold_that_is_a_distance_is_no_temperature() -> None:
    assert notices(declare(83), replace(BLACKWELL, celsius_slowdown=-2)) == ""


def test_memory_that_is_not_reported_is_noticed() -> None:
    said = notices(declare({"gpu": 83, "memory": 100}), GEFORCE, TESLA)

    assert "GPU 0000:0a:00.0 (NVIDIA GeForce RTX 3090) reports no temperature of its memory" in said


def test_a_card_that_takes_no_power_limit_is_noticed() -> None:
    laptop = replace(GEFORCE, watts_limit=None, watts_requested=None)

    assert "lower-power does nothing there" in notices(declare(83), laptop)
    assert notices(declare(83, thermal_action="notify"), laptop) == ""


def test_grave_steps_for_lost_sensors_are_noticed() -> None:
    said = notices(declare(83, thermal_sensor_loss="poweroff"), GEFORCE)

    assert 'thermal_sensor_loss = "poweroff": an update of the driver' in said


def test_the_python_of_a_host_is_read() -> None:
    assert parse("python 3.11\n") == (3, 11)
    assert parse("") == parse("Traceback (most recent call last):\n") == ()


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("", "gpu 83 °C"),
        ("# by rigops\ngpu 90\nhold 30\naction lower-power\n", "gpu 90 -> 83 °C"),
        ("hold 60\ngpu 83\naction notify\n", "hold 60 -> 30 s, action notify -> lower-power"),
    ],
)
def test_the_plan_says_which_settings_of_the_guard_change(before: str, says: str) -> None:
    assert decide.headline(declare(83), before).startswith(f"thermal guard: {says}")
