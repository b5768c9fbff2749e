"""WHEN of a restore."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from rigops.backup.when import parse_when
from rigops.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Finland's, without a file of zones: two hours, and three in summer.
ZONE = "EET-2EEST,M3.5.0/3,M10.5.0/4"
NOW = datetime(2026, 11, 25, 12, 0, tzinfo=timezone(timedelta(hours=2)))


@pytest.fixture(autouse=True)
def finland(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", ZONE)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ""),
        ("20261125T060001Z-manual", "20261125T060001Z-manual"),
        ("my.rig-2-20261125T060001Z", "my.rig-2-20261125T060001Z"),
        ("2026-11-24", "2026-11-24T21:59:59Z"),  # all of that day here
        ("2026-07-01", "2026-07-01T20:59:59Z"),  # of a day in summer too
        ("2026-11-24T18:30", "2026-11-24T16:30:00Z"),
        ("2026-11-24 18:30:05", "2026-11-24T16:30:05Z"),
        ("2026-11-24T18:30:00Z", "2026-11-24T18:30:00Z"),
        ("2026-11-24T18:30:00-05:00", "2026-11-24T23:30:00Z"),
        ("3d", "2026-11-22T10:00:00Z"),
        ("2h ago", "2026-11-25T08:00:00Z"),
        ("1w", "2026-11-18T10:00:00Z"),
        ("2 days ago", "2026-11-23T10:00:00Z"),
        ("1 Week", "2026-11-18T10:00:00Z"),
        ("yesterday", "2026-11-24T21:59:59Z"),
    ],
)
def test_it_is_a_name_or_a_time(text: str, found: str) -> None:
    assert parse_when(text, NOW) == found


def test_yesterday_ends_at_midnight_also_where_the_clock_was_put_back_since() -> None:
    sunday = datetime(2026, 10, 25, 12, 0).astimezone()

    assert parse_when("yesterday", sunday) == "2026-10-24T20:59:59Z"


@pytest.mark.parametrize(
    "text", ["tomorrow", "days ago", "2026-13-01", "0001-01-01", "3", "d", "2026-11-25T25:00"]
)
def test_anything_else_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_when(text, NOW)
    assert "2026-11-25" in raised.value.problems[0].accepted
