"""How old the newest backup, its drill and its check may be: for doctor and self-check. Pure."""

from __future__ import annotations

from datetime import timedelta

from rigops.backup.retention import longest_pause, parse_rule

DRILL_MOST = timedelta(days=40)
AFTER_BOOT = timedelta(hours=2)  # within which a missed run is caught up
OTHERS_PAUSE = timedelta(days=1)  # of a backup whose schedule rigops does not know
DEFAULT_SCHEDULE = "daily"

_GRACE = timedelta(days=6)  # a disk that is absent over a week's end is no failure yet
_DAY = timedelta(days=1)
_SCHEDULES = {
    "hourly": timedelta(hours=1),
    "daily": _DAY,
    "weekly": timedelta(days=7),
    "monthly": timedelta(days=31),
}


def time_between_runs(schedule: str, keep: str) -> timedelta:
    """Of another calendar event than these it is a day, or what `keep` makes of it."""
    known = _SCHEDULES.get(schedule or DEFAULT_SCHEDULE)
    return known or max(_DAY, longest_pause(parse_rule(keep) if keep else None))


def age_limits(between: timedelta) -> tuple[timedelta, timedelta]:
    """Above the first it is a warning, above the second a failure."""
    return 2 * between, 2 * between + _GRACE


def judge_age(age: timedelta, between: timedelta, uptime: timedelta | None) -> str:
    """ok, warn or fail. Where the boot was just now, a run is still to come."""
    warn, fail = age_limits(between)
    if age <= warn or (uptime is not None and uptime <= AFTER_BOOT):
        return "ok"
    return "warn" if age <= fail else "fail"


def longest_unchecked(every_days: int) -> timedelta:
    """Of a repository that is to be checked so often."""
    return timedelta(days=2 * every_days)
