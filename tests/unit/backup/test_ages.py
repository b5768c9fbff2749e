from __future__ import annotations

from datetime import timedelta

import pytest

from rigops.backup.ages import age_limits, judge_age, time_between_runs

DAY = timedelta(days=1)
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


@pytest.mark.parametrize("between", [timedelta(hours=1), DAY, 7 * DAY])
def test_it_warns_after_two_runs_and_fails_six_days_later(between: timedelta) -> None:
    warn, fail = age_limits(between)

    assert (warn, fail) == (2 * between, 2 * between + 6 * DAY)
    judged = [judge_age(age, between, None) for age in (warn, warn + SECOND, fail, fail + SECOND)]
    assert judged == ["ok", "warn", "warn", "fail"]
    assert judge_age(fail + SECOND, between, timedelta(minutes=5)) == "ok"
