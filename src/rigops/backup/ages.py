"""How old a copy, a drill and a check may be, for every judge. Pure; Python 3.8."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.pruning import is_future
from rigops.backup.retention import longest_pause, parse_rule
from rigops.backup.utc import utc_text

if TYPE_CHECKING:
    from typing import Literal

    Lateness = Literal["as declared", "in doubt", "failing", "unknown"]  # words of a State

DRILL_MOST = timedelta(days=40)
ABSENT_MOST = timedelta(days=7), timedelta(days=30)  # of a disk that is sent to
LOCKED_MOST = timedelta(days=1)  # another host may be at work
AFTER_BOOT = timedelta(hours=2)  # within which a missed run is caught up
DEFAULT_SCHEDULE = "daily"
# Of what a document in another shape brings about when it is read.
MISSHAPEN = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)

_GRACE = timedelta(days=6)  # a disk that is absent over a week's end is no failure yet
_DAY = timedelta(days=1)
_SCHEDULES = {
    "hourly": timedelta(hours=1),
    "daily": _DAY,
    "weekly": timedelta(days=7),
    "monthly": timedelta(days=31),
}
_HOUR_S = 3600
_DAY_S = 24 * _HOUR_S


class Moment(NamedTuple):
    """Of a host, by its own clock. None: not known."""

    now: datetime | None
    uptime: timedelta | None = None


def time_between_runs(schedule: str, keep: str) -> timedelta:
    """Of another calendar event than these it is a day, or what `keep` makes of it."""
    known = _SCHEDULES.get(schedule or DEFAULT_SCHEDULE)
    return known or max(_DAY, longest_pause(parse_rule(keep) if keep else None))


def age_limits(between: timedelta = _DAY) -> tuple[timedelta, timedelta]:
    """Above the first it is in doubt, above the second failing."""
    return 2 * between, 2 * between + _GRACE


def judge_age(
    what: str,
    at: datetime,
    moment: Moment,
    late: timedelta,
    too_late: timedelta = timedelta.max,
) -> tuple[Lateness, str]:
    """With a sentence. Where the boot was just now, a run is still to come.

    That excuses what was late for some days, and not what is late at every boot.
    """
    now, uptime = moment
    if now is None:
        return "unknown", f"{what} is of {utc_text(at)}; the host's clock was not collected"
    if is_future(at, now):
        return "in doubt", f"{what} is dated in the future ({utc_text(at)}): a clock is wrong"
    said = f"{what} is {span(now - at)} old"
    is_to_come = uptime is not None and uptime <= AFTER_BOOT
    if now - at <= (late + _GRACE if is_to_come else late):
        return "as declared", said
    return ("in doubt" if now - at <= too_late else "failing"), said


def span(age: timedelta) -> str:
    seconds = max(0, int(age.total_seconds()))
    if seconds < _HOUR_S:
        return f"{seconds // 60} min"
    return f"{seconds // _HOUR_S} h" if seconds < 2 * _DAY_S else f"{seconds // _DAY_S} days"
