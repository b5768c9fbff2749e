from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from rigops.backup.ages import AFTER_BOOT, Moment, age_limits, judge_age, time_between_runs
from rigops.backup.pruning import CLOCK_STEP

DAY = timedelta(days=1)
NOW = datetime(2026, 11, 25, 6, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("schedule", "keep", "days"),
    [
        ("", "", 1), ("daily", "24h", 1), ("weekly", "7d", 7), ("monthly", "", 31),
        ("*-*-* 03:00", "24h 7d", 1), ("Mon 03:00", "4w", 7), ("Mon 03:00", "", 1),
    ],
)  # fmt: skip
def test_the_time_between_two_runs_is_that_of_the_schedule_or_of_keep(
    schedule: str, keep: str, days: int
) -> None:
    assert time_between_runs(schedule, keep) == days * DAY


@pytest.mark.parametrize(
    ("age", "uptime", "answer"),
    [
        (2 * DAY, None, ("as declared", "the copy is 2 days old")),
        (2 * DAY + SECOND, None, ("in doubt", "the copy is 2 days old")),
        (8 * DAY, 9 * DAY, ("in doubt", "the copy is 8 days old")),
        (8 * DAY + SECOND, 9 * DAY, ("failing", "the copy is 8 days old")),
        (8 * DAY, AFTER_BOOT, ("as declared", "the copy is 8 days old")),
        (8 * DAY, AFTER_BOOT + SECOND, ("in doubt", "the copy is 8 days old")),
        (9 * DAY, AFTER_BOOT, ("failing", "the copy is 9 days old")),
        (9 * DAY, AFTER_BOOT + SECOND, ("failing", "the copy is 9 days old")),
        (-CLOCK_STEP, None, ("as declared", "the copy is 0 min old")),
    ],
)
def test_a_daily_copy_is_in_doubt_after_two_runs_and_fails_six_days_later(
    age: timedelta, uptime: timedelta | None, answer: tuple[str, str]
) -> None:
    assert judge_age("the copy", NOW - age, Moment(NOW, uptime), *age_limits(DAY)) == answer


def test_a_clock_that_is_wrong_or_unknown_is_said() -> None:
    ahead = judge_age("it", NOW + CLOCK_STEP + SECOND, Moment(NOW, SECOND), DAY)
    unknown = judge_age("it", NOW, Moment(None), DAY)

    assert ahead == (
        "in doubt",
        "it is dated in the future (2026-11-25T06:02:01Z): a clock is wrong",
    )
    assert unknown == (
        "unknown",
        "it is of 2026-11-25T06:00:00Z; the host's clock was not collected",
    )
