"""Which snapshots a retention such as "24h 7d 4w" keeps: the schedule of btrbk.

Kept are the first of each hour, day, week, month and year, and always the newest. Units are those
of the local clock; weeks begin on Sunday, and a week belongs to the month and year of its Sunday.
"7d" means today, which is not over, and the seven days before it: up to eight. A date later than
now (the clock was changed) is always kept, and takes no place of an older one.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime, tzinfo

    from rigops.inventory.spec.model import Retention

_RETENTION_PART = re.compile(r"([1-9][0-9]{0,3})([hdwmy])")
_RETENTION_UNITS = {"h": "hourly", "d": "daily", "w": "weekly", "m": "monthly", "y": "yearly"}
_LONGEST_DAYS = (1 / 24, 1, 7, 31, 366)  # of each unit

PAUSE_WITHOUT_RULE = timedelta(days=1)


class Rule(NamedTuple):
    """How many of each unit to keep beside the present one; 0 is none."""

    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0


def parse_rule(text: str) -> Rule:
    """The grammar of `keep` in an inventory, such as "24h 7d 4w 6m 2y"."""
    counts: dict[str, int] = {}
    for part in text.split():
        matched = _RETENTION_PART.fullmatch(part)
        if matched is None:
            raise ValueError(f"{part!r} is not a number and an age, such as 7d")
        unit = _RETENTION_UNITS[matched.group(2)]
        if unit in counts:
            raise ValueError(f"{unit} is given twice")
        counts[unit] = int(matched.group(1))
    if not counts:
        raise ValueError('the retention is empty; write one such as "24h 7d 4w"')
    return Rule(**counts)


def reasons_to_keep(
    times: Sequence[datetime],
    rule: Rule | None,
    now: datetime,
    *,
    zone: tzinfo | None = None,
) -> dict[datetime, tuple[str, ...]]:
    """Those to keep, the oldest first. Without a rule all are; without a zone it is the local one.

    `times` and `now` are aware, and best of UTC: Python compares times of one zone by its clock.
    """
    ordered = sorted(set(times))
    if rule is None or not any(rule):
        return dict.fromkeys(ordered, ("no rule",))
    reasons: dict[datetime, list[str]] = {
        time: ["in the future"] if time > now else [] for time in ordered
    }
    past = [time for time in ordered if time <= now]
    if past:
        reasons[past[-1]].append("newest")
    slots = {time: _slots(time, zone) for time in past}
    present = _present(now, zone)
    for unit, name in enumerate(Rule._fields):
        firsts: dict[int, datetime] = {}
        for time in past:
            firsts.setdefault(slots[time][unit], time)
        for slot, time in firsts.items():
            if rule[unit] and present[unit] - slot <= rule[unit]:
                reasons[time].append(name)
    return {time: tuple(found) for time, found in reasons.items() if found}


def due(
    newest: datetime | None,
    rule: Rule | None,
    now: datetime,
    *,
    zone: tzinfo | None = None,
) -> bool:
    """Whether a new finest unit of the rule has begun since the newest.

    One that is later than now counts as none, so give the newest of the others. A rule of nothing
    has no unit: only the first is due.
    """
    if newest is None or newest > now:
        return True
    if rule is None or not any(rule):
        return False
    finest = next(unit for unit, count in enumerate(rule) if count)
    return _slots(newest, zone)[finest] < _slots(now, zone)[finest]


def longest_pause(rule: Rule | None) -> timedelta:
    """Between two that are due, where every run takes place: the finest unit of the rule."""
    if rule is None or not any(rule):
        return PAUSE_WITHOUT_RULE
    finest = next(unit for unit, count in enumerate(rule) if count)
    return timedelta(days=_LONGEST_DAYS[finest])


def _slots(time: datetime, zone: tzinfo | None) -> tuple[int, ...]:
    """The numbers of its hour, day, week, month and year, each of which holds the one before."""
    local = time.astimezone(zone)
    day = local.toordinal()
    sunday = local.date() - timedelta(days=local.isoweekday() % 7)
    return (day * 24 + local.hour, day, sunday.toordinal() // 7, *_month_and_year(sunday))


def _present(now: datetime, zone: tzinfo | None) -> tuple[int, ...]:
    """From which to count: btrbk counts from the month and year of today, not of its Sunday."""
    return (*_slots(now, zone)[:3], *_month_and_year(now.astimezone(zone).date()))


def _month_and_year(day: date) -> tuple[int, int]:
    return day.year * 12 + day.month, day.year


def keep_text(keep: Retention | None) -> str:
    """As the programs read it. Empty: all is kept."""
    if keep is None:
        return ""
    counts = {
        "h": keep.hourly,
        "d": keep.daily,
        "w": keep.weekly,
        "m": keep.monthly,
        "y": keep.yearly,
    }
    return " ".join(f"{count}{unit}" for unit, count in counts.items() if count)
