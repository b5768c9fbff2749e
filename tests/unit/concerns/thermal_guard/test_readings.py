"""What the guard reads of its settings and of nvidia-smi."""

from __future__ import annotations

import pytest

from rigops.concerns.registry import read
from rigops.concerns.thermal_guard.decide import settings
from rigops.concerns.thermal_guard.guard.jobs import parse_jobs
from rigops.concerns.thermal_guard.guard.readings import (
    LOWER_POWER,
    NOTIFY,
    STOP_JOBS,
    GuardSettings,
    Reading,
    parse_readings,
    parse_settings,
)

UUID = "GPU-3d5bdb46-1111-5b0e-bf7a-4b3f2a1b0c0d"
ROW = f"00000000:0A:00.0, {UUID}, 70, N/A, 340.10, 350.00, 100.00, 350.00"


def test_a_row_is_a_reading() -> None:
    assert parse_readings(f"{ROW}\n") == [
        Reading(
            UUID,
            "0000:0a:00.0",
            celsius=70,
            draw=340.1,
            limit=350,
            least=100,
            default=350,
            raw="70",
        )
    ]


def test_a_margin_comes_last_and_may_be_below_0() -> None:
    (found,) = parse_readings(f"{ROW}, -2\n")

    assert found.margin == -2


@pytest.mark.parametrize("word", ["[N/A]", "N/A", "[Unknown Error]", "ERR!", "", "0", "151", "-4"])
def test_what_is_no_temperature_is_none(word: str) -> None:
    (found,) = parse_readings(ROW.replace(" 70,", f" {word},"))

    assert (found.celsius, found.raw) == (None, word)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Failed to initialize NVML: Driver/library version mismatch",
        "Unable to determine the device handle for GPU0000:0A:00.0: GPU is lost.",
        ROW[:40],
        ROW.replace(UUID, "[N/A]"),
    ],
)
def test_what_else_it_says_is_no_reading(line: str) -> None:
    assert parse_readings(f"{line}\n{ROW}\n") == parse_readings(ROW)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"thermal_limit": 83}, GuardSettings(gpu=83.0)),
        (
            {"thermal_limit": {"memory": 100, "margin": 5}, "thermal_hold": 60},
            GuardSettings(memory=100.0, margin=5.0, hold_s=60.0),
        ),
        (
            {
                "thermal_limit": 83,
                "thermal_action": "stop-jobs",
                "thermal_sensor_loss": "notify",
            },
            GuardSettings(gpu=83.0, action=STOP_JOBS, loss=NOTIFY),
        ),
    ],
)
def test_the_program_reads_what_the_plan_writes(
    data: dict[str, object], expected: GuardSettings
) -> None:
    lines = settings(read(data))

    assert parse_settings("# Made by rigops\n" + "\n".join(lines)) == expected


def test_the_last_step_is_lower_power_where_nothing_else_is_declared() -> None:
    assert (GuardSettings().action, GuardSettings().loss) == (LOWER_POWER, LOWER_POWER)
    assert "action lower-power" in settings(read({"thermal_limit": 83}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gpu 83",
        "gpu hot\nhold 30\naction notify\nsensor-loss notify",
        "gpu 83\nhold 30\naction none\nsensor-loss notify",
        "gpu 83\nhold 30\naction explode\nsensor-loss notify",
        "gpu 83\nhold 30\naction notify\nsensor-loss notify\nfan 100",
    ],
)
def test_settings_that_are_damaged_are_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        parse_settings(text)


def test_jobs_are_found_by_their_card() -> None:
    text = f"{UUID}, 1234\n{UUID}, 99\nGPU-b, 7\nNo running processes found\n"

    assert parse_jobs(text) == {UUID: {1234, 99}, "GPU-b": {7}}
