"""A clock that is years off is told with both times, what fails with it, and the fix."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.concerns.preconditions import clock

NOW = 1_795_000_000  # 2026-11-18 11:06:40 UTC
DAY = 86_400


def test_a_host_of_the_future_sees_everything_expired() -> None:
    found = clock.wrong(1_924_992_000, NOW)

    assert found is not None
    text = str(found)
    assert "2031-01-01 00:00:00 UTC" in text
    assert "2026-11-18 11:06:40 UTC" in text
    assert "4.1 years ahead" in text
    assert "expired" in text
    assert "not yet valid" not in text
    assert "timedatectl set-ntp true" in text
    assert "chronyc makestep" in text


def test_a_host_of_the_past_sees_everything_as_not_yet_valid() -> None:
    found = clock.wrong(0, NOW)

    assert found is not None
    assert "1970-01-01 00:00:00 UTC" in found.summary
    assert "behind" in found.summary
    assert "not yet valid" in found.breaks
    assert "date -u -s '2026-11-18 11:06:40'" in found.fix


@pytest.mark.parametrize("off", [0, 1, -300, DAY, -DAY])
def test_less_than_a_day_is_no_wrong_clock(off: int) -> None:
    assert clock.wrong(NOW + off, NOW) is None


def test_what_passed_since_the_host_was_asked_is_no_difference() -> None:
    assert clock.wrong(NOW, NOW + 2 * DAY, elapsed_s=2 * DAY) is None
    assert clock.wrong(NOW, NOW + 2 * DAY) is not None


@given(st.integers(0, 999_999_999_999), st.integers(0, 4_000_000_000))
def test_any_time_can_be_told(host_s: int, controller_s: int) -> None:
    found = clock.wrong(host_s, controller_s)

    assert (found is None) == (abs(host_s - controller_s) <= DAY)
