"""What the guard does, step by step, in simulated time."""

from __future__ import annotations

from typing import Final

import pytest

from rigops.concerns.thermal_guard.guard.ladder import LOWERINGS, Held
from rigops.concerns.thermal_guard.guard.readings import (
    LOWER_POWER,
    NONE,
    NOTIFY,
    POWEROFF,
    STOP_JOBS,
    GuardSettings,
)
from tests.unit.concerns.thermal_guard.simulated import HOLD, TURN, A, B, Rig, uuid_of

ALL_STEPS: Final = GuardSettings(gpu=83.0, hold_s=HOLD, action=POWEROFF, loss=POWEROFF)
DEFAULT: Final = GuardSettings(gpu=83.0, hold_s=HOLD)
RUNGS: Final = 1 + LOWERINGS + 2


def overheated(_: float, __: float) -> float:
    return 95.0


def cooled_by_less_power(_: float, limit: float) -> float:
    """95 °C at 350 W, 83 at 300 W, 71 at 250 W."""
    return 95.0 - (350.0 - limit) * 0.24


# ---- heat


def test_what_stays_hot_whatever_is_done_goes_through_every_step_to_the_end() -> None:
    rig = Rig(ALL_STEPS)
    rig.celsius = overheated
    rig.run(RUNGS * (HOLD + TURN))

    assert rig.told == ["notify", "lower-power", "stop-jobs", "poweroff"]
    assert [watts for _, watts in rig.set] == [300.0, 250.0, 200.0, 150.0, 100.0]
    assert rig.powered_off[0] == RUNGS * HOLD


def test_each_step_comes_a_hold_after_the_one_before() -> None:
    rig = Rig(ALL_STEPS)
    rig.celsius = overheated
    rig.run(RUNGS * (HOLD + TURN))

    assert [at for at, _ in rig.said][:RUNGS] == [HOLD * (turn + 1) for turn in range(RUNGS)]


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (NOTIFY, ["notify"]),
        (LOWER_POWER, ["notify", "lower-power"]),
        (STOP_JOBS, ["notify", "lower-power", "stop-jobs"]),
    ],
)
def test_it_never_goes_beyond_the_last_step_allowed(action: int, told: list[str]) -> None:
    rig = Rig(ALL_STEPS._replace(action=action))
    rig.celsius = overheated
    rig.run(3600)

    assert rig.told == told
    assert rig.powered_off == []


@pytest.mark.parametrize(
    ("celsius", "more"),
    [(83.0, {}), (82.0, {}), (79.9, {}), (60.0, {"memory": 100.0}), (60.0, {"margin": 5.0})],
)
def test_merely_touching_the_limit_leads_to_nothing(celsius: float, more: dict[str, float]) -> None:
    rig = Rig(ALL_STEPS._replace(memory=more.get("memory"), margin=more.get("margin")))
    rig.celsius, rig.more = (lambda _, __: celsius), more
    rig.run(3600)

    assert (rig.said, rig.set, rig.step) == ([], [], "none")


def test_a_peak_that_is_shorter_than_the_hold_leads_to_nothing() -> None:
    rig = Rig(ALL_STEPS)
    rig.celsius = lambda now, _: 95.0 if now % 60 < HOLD - TURN else 82.0
    rig.run(3600)

    assert rig.said == []


def test_less_power_cools_the_card_and_it_stays_there_while_it_is_not_clearly_cool() -> None:
    rig = Rig(ALL_STEPS)
    rig.celsius = cooled_by_less_power
    rig.run(3600)

    assert rig.limit == 300.0  # 83 °C
    assert (rig.step, rig.told) == ("lower-power", ["notify", "lower-power"])


def test_once_clearly_cool_it_gets_its_power_back_step_by_step() -> None:
    rig = Rig(ALL_STEPS)
    rig.celsius = overheated
    rig.run(4 * (HOLD + TURN))
    assert rig.limit < 300.0
    rig.celsius = lambda _, __: 80.0  # 3 below
    rig.set.clear()
    rig.run(3600)

    assert rig.limit == 350.0
    assert [watts for _, watts in rig.set] == sorted(watts for _, watts in rig.set)
    assert (rig.step, rig.guard.why) == ("none", "")


def test_only_the_card_that_is_hot_is_lowered() -> None:
    rig = Rig(ALL_STEPS, A, B)
    rig.celsius = overheated
    rig.guard.see(0.0, 0.0, [rig.reading(uuid_of(A)), rig.reading(uuid_of(B))._replace(celsius=50)])
    for second in range(1, 200):
        cool = rig.reading(uuid_of(B))._replace(celsius=50.0)
        rig.do(rig.guard.see(second, second, [rig.reading(uuid_of(A)), cool]))

    assert rig.limit < 350.0
    assert rig.limits[uuid_of(B)] == 350.0


def test_a_card_that_takes_no_limit_goes_on_with_the_next_step() -> None:
    rig = Rig(ALL_STEPS)
    rig.celsius = overheated
    reading = rig.reading(uuid_of(A))._replace(limit=None, least=None)
    for second in range(200):
        rig.do(rig.guard.see(second, second, [reading]))

    assert rig.told == ["notify", "stop-jobs", "poweroff"]


def test_a_card_that_refuses_every_limit_goes_on_in_the_same_time() -> None:
    rig = Rig(ALL_STEPS)
    rig.celsius, rig.can_set = overheated, False
    for _ in range(RUNGS * 8):
        rig.turn()
        rig.do(list(rig.guard.cards[uuid_of(A)].refuse("not supported")) if rig.set else [])

    assert rig.powered_off[0] == RUNGS * HOLD
    assert [watts for _, watts in rig.set][:LOWERINGS] == [300.0, 250.0, 200.0, 150.0, 100.0]
    assert rig.guard.cards[uuid_of(A)].watts is None


def test_a_limit_that_is_not_reported_for_once_skips_no_step() -> None:
    rig = Rig(ALL_STEPS)
    rig.celsius = overheated
    rig.run(HOLD + TURN)
    assert rig.told == ["notify"]
    for _ in range(12):
        reading = rig.reading(uuid_of(A))._replace(limit=None, least=None)
        rig.do(rig.guard.see(rig.now, rig.now, [reading]))
        rig.now += TURN

    assert rig.told == ["notify", "lower-power"]


def test_a_step_that_comes_and_goes_is_told_once_in_a_while() -> None:
    rig = Rig(DEFAULT)
    rig.celsius = lambda _, limit: 95.0 if limit > 300 else 70.0
    rig.run(60 * HOLD)

    assert rig.told == ["notify", "lower-power", "none"]
    rig.run(60 * HOLD)
    assert len(rig.told) == 6


# ---- margin and memory


def test_a_margin_that_is_used_up_is_heat_too() -> None:
    rig = Rig(GuardSettings(margin=5.0, hold_s=HOLD))
    rig.more = {"margin": 4.0}
    rig.run(3 * HOLD)
    assert rig.step == "lower-power"
    assert "4 °C are left to its T.Limit, fewer than 5" in rig.guard.why

    rig.more = {"margin": 7.9}
    rig.run(3600)
    assert rig.step == "lower-power"
    rig.more = {"margin": 8.0}
    rig.run(3600)
    assert rig.step == "none"


def test_hot_memory_lowers_power_and_never_stops_jobs_by_itself() -> None:
    rig = Rig(ALL_STEPS._replace(memory=100.0))
    rig.more = {"memory": 108.0}
    rig.run(3600)

    assert rig.step == "lower-power"
    assert "its memory is at 108 °C by nvidia-smi" in rig.guard.why
    assert rig.limit == 100.0


def test_hot_memory_ends_no_more_jobs_once_the_chip_has_cooled() -> None:
    rig = Rig(ALL_STEPS._replace(memory=100.0, action=STOP_JOBS))
    rig.celsius, rig.more = overheated, {"memory": 108.0}
    rig.run(3600)
    assert [card.stops_jobs for card in rig.guard.cards.values()] == [True]

    rig.celsius = lambda _, __: 60.0
    rig.turn()
    assert [card.stops_jobs for card in rig.guard.cards.values()] == [False]
    assert rig.step == "stop-jobs"


def test_the_memory_sensor_alone_may_be_lost_with_a_message_at_most() -> None:
    rig = Rig(ALL_STEPS._replace(memory=100.0))
    rig.more = {"memory": 60.0}
    rig.run(60)
    rig.more = {"memory": None}
    rig.run(3600)

    assert rig.step == "notify"


def test_a_card_that_never_reported_its_memory_has_not_lost_it() -> None:
    rig = Rig(ALL_STEPS._replace(memory=100.0))
    rig.run(3600)

    assert rig.step == "none"


# ---- lost sensors


def lost(_: float, __: float) -> None:
    return None


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (NOTIFY, ["notify"]),
        (LOWER_POWER, ["notify", "lower-power"]),
        (POWEROFF, ["notify", "lower-power", "stop-jobs", "poweroff"]),
    ],
)
def test_a_lost_sensor_leads_as_far_as_is_declared_for_it(loss: int, told: list[str]) -> None:
    rig = Rig(ALL_STEPS._replace(loss=loss))
    rig.run(60)
    rig.celsius = lost
    rig.run(3600)

    assert rig.told == told
    assert bool(rig.powered_off) == (loss == POWEROFF)
    assert "its temperature cannot be read" in rig.guard.why


def test_by_default_a_silent_nvidia_smi_never_stops_jobs_or_the_host() -> None:
    rig = Rig(DEFAULT._replace(action=POWEROFF))
    rig.run(60)
    rig.is_silent = True
    rig.run(24 * 3600)

    assert (rig.told, rig.powered_off, rig.set) == (["notify", "lower-power"], [], [])
    assert not any(card.stops_jobs for card in rig.guard.cards.values())


def test_a_silent_nvidia_smi_leads_to_nothing_before_the_hold() -> None:
    rig = Rig(ALL_STEPS)
    rig.run(60)
    rig.is_silent = True
    rig.run(HOLD)

    assert rig.said == []


def test_before_the_first_answer_it_waits_for_ever() -> None:
    rig = Rig(ALL_STEPS)
    rig.is_silent = True
    rig.run(24 * 3600)

    assert (rig.said, rig.step) == ([], "none")


def test_after_a_restart_of_the_guard_the_driver_has_answered_before() -> None:
    rig = Rig(DEFAULT, held=(Held(uuid_of(A), A),))
    rig.is_silent = True
    rig.run(3 * HOLD)

    assert rig.told == ["notify", "lower-power"]


def test_when_it_answers_again_nothing_is_lowered_that_was_not() -> None:
    rig = Rig(DEFAULT)
    rig.run(60)
    rig.is_silent = True
    rig.run(600)
    rig.is_silent = False
    rig.run(600)

    assert (rig.set, rig.limit, rig.step) == ([], 350.0, "none")


def test_a_reading_that_is_missing_does_not_say_that_the_card_has_cooled() -> None:
    rig = Rig(ALL_STEPS._replace(loss=NOTIFY))
    rig.celsius = lambda now, _: None if now % 10 else 95.0
    rig.run(RUNGS * 2 * HOLD)

    assert rig.told == ["notify", "lower-power", "stop-jobs", "poweroff"]


def test_a_card_that_is_gone_is_a_lost_sensor() -> None:
    rig = Rig(DEFAULT, A, B)
    rig.run(60)
    del rig.limits[uuid_of(B)]
    rig.run(3 * HOLD)

    assert rig.guard.why == f"GPU {B}: nvidia-smi no longer reports it"


def test_while_rigops_works_lost_sensors_lead_to_nothing_and_heat_still_does() -> None:
    rig = Rig(ALL_STEPS)
    rig.run(60)
    rig.waits, rig.is_silent = True, True
    rig.run(3600)
    assert rig.said == []

    rig.is_silent = False
    rig.celsius = overheated
    rig.run(3 * HOLD)
    assert rig.told == ["notify", "lower-power"]


def test_after_that_a_whole_hold_has_to_pass() -> None:
    rig = Rig(ALL_STEPS)
    rig.run(60)
    rig.waits, rig.is_silent = True, True
    rig.run(3600)
    rig.waits = False
    rig.run(HOLD)

    assert rig.said == []


# ---- somebody else sets the limit


def lowered() -> Rig:
    rig = Rig(DEFAULT)
    rig.celsius = lambda _, limit: 95.0 if limit > 250 else 82.0
    rig.run(5 * HOLD)
    assert rig.limit == 250.0
    return rig


def test_a_limit_that_is_raised_is_lowered_again_and_is_what_there_was_before() -> None:
    rig = lowered()
    rig.limits[uuid_of(A)] = 285.0
    rig.run(2 * TURN)

    card = rig.guard.cards[uuid_of(A)]
    assert card.before == 285.0
    assert rig.limit == card.watts == 211.0
    rig.celsius = lambda _, __: 60.0
    rig.run(3600)
    assert rig.limit == 285.0


def test_a_limit_that_is_lowered_further_is_somebody_elses_and_stays() -> None:
    rig = lowered()
    rig.limits[uuid_of(A)] = 150.0
    rig.celsius = lambda _, __: 60.0
    rig.run(3600)

    assert rig.limit == 150.0
    assert rig.step == "none"


@pytest.mark.parametrize(
    ("watts", "before"), [(250.9, 350.0), (249.1, 350.0), (251.1, 251.1), (248.9, None)]
)
def test_a_limit_is_another_one_beyond_what_nvidia_smi_rounds(
    watts: float, before: float | None
) -> None:
    rig = lowered()
    rig.limits[uuid_of(A)] = watts
    rig.run(2 * TURN)

    assert rig.guard.cards[uuid_of(A)].before == before


def test_a_limit_that_the_card_did_not_take_back_is_given_back_again() -> None:
    rig = lowered()
    rig.celsius, rig.can_set = (lambda _, __: 60.0), False
    rig.run(4 * HOLD)
    rig.can_set = True
    rig.run(2 * HOLD)

    assert rig.limit == 350.0


def test_a_restart_of_the_guard_goes_on_where_it_was() -> None:
    held = Held(uuid_of(A), A, rung=3, why="it is at 90 °C", watts=250.0, before=350.0)
    rig = Rig(DEFAULT, held=(held,))
    rig.limits[uuid_of(A)] = 250.0
    rig.celsius = lambda _, __: 82.0
    rig.run(3600)
    assert (rig.limit, rig.step, rig.set) == (250.0, "lower-power", [])

    rig.celsius = lambda _, __: 60.0
    rig.run(3600)
    assert rig.limit == 350.0


def test_a_step_that_ended_while_no_guard_ran_leaves_no_limit_behind() -> None:
    rig = Rig(DEFAULT, held=(Held(uuid_of(A), A, watts=100.0, before=350.0),))
    rig.limits[uuid_of(A)] = 100.0
    rig.run(20)

    assert rig.limit == 350.0


# ---- what is asked for


def test_a_step_that_is_asked_for_is_taken_at_once_on_every_card_until_it_ends() -> None:
    rig = Rig(DEFAULT, A, B)
    rig.run(10)
    rig.order(LOWER_POWER)
    assert set(rig.limits.values()) == {100.0}
    assert (rig.step, rig.guard.why) == ("lower-power", "on battery")
    rig.run(3600)
    assert set(rig.limits.values()) == {100.0}

    rig.order(NONE, "")
    assert set(rig.limits.values()) == {350.0}
    rig.run(60)
    assert rig.step == "none"


def test_an_order_that_comes_right_after_the_last_one_ended_knows_the_true_limit() -> None:
    rig = Rig(DEFAULT)
    rig.run(10)
    rig.order(LOWER_POWER)
    rig.run(10)
    rig.order(NONE, "")
    rig.order(LOWER_POWER)
    rig.order(NONE, "")

    assert rig.limit == 350.0


def test_an_order_before_the_first_reading_is_taken_with_it() -> None:
    rig = Rig(DEFAULT)
    rig.order(LOWER_POWER)
    assert rig.set == []
    rig.run(10)

    assert rig.limit == 100.0


def test_jobs_are_stopped_on_every_card_where_that_is_asked_for() -> None:
    rig = Rig(ALL_STEPS, A, B)
    rig.run(10)
    rig.order(STOP_JOBS)

    assert all(card.stops_jobs for card in rig.guard.cards.values())
    rig.order(POWEROFF)
    assert len(rig.powered_off) == 1
