"""The date at the top of a bug report, in whatever locale and time zone the host has."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_MONTHS: Final = (
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
)  # fmt: skip
_CLOCK: Final = re.compile(r"\b([0-9]{1,2})[:.]([0-9]{2})[:.]([0-9]{2})\b(?: ?([AaPp])\.?[Mm]\b)?")
_YEAR: Final = re.compile(r"\b((?:19|20)[0-9]{2})\b")
_DAY: Final = re.compile(r"\b([0-9]{1,2})\b")
_NAMED: Final = re.compile(r"[^\W\d_]{3,12}")
_ZONE: Final = re.compile(r"(?:^| )([+-][0-9]{2})(?::?([0-9]{2}))?(?: |$)")
_UTC: Final = re.compile(r"\b(?:UTC|GMT)\b")
_STAMP: Final = re.compile(r" (\d{4}-\d\d-\d\d) \d\d:\d\d:\d\d(?:\.\d{1,12})? ([+-]\d{2})(\d{2}) ")


def rfc3339(date: str, stamps: Iterable[str]) -> str | None:
    """`stamps` are lines of `ls --full-time`: one of that day has the zone in numbers."""
    local = _local(date)
    if local is None:
        return None
    zone = _zone(date)
    if zone is None:
        zone = _zone_of_day(local, stamps)
    return None if zone is None else (local - zone).strftime("%Y-%m-%dT%H:%M:%SZ")


def _local(date: str) -> datetime | None:
    clock, year = _CLOCK.search(date), _YEAR.search(date)
    month = next(
        (
            _MONTHS.index(word[:3].lower()) + 1
            for word in _NAMED.findall(date)
            if word[:3].lower() in _MONTHS
        ),
        None,
    )
    if not clock or not year or not month:
        return None
    rest = date[: clock.start()] + " " + date[clock.end() :]
    day = _DAY.search(_ZONE.sub(" ", _YEAR.sub(" ", rest)))
    hour = int(clock[1])
    if clock[4]:
        hour = hour % 12 + (12 if clock[4] in "Pp" else 0)
    try:
        return datetime(  # noqa: DTZ001 - the zone comes later
            int(year[1]), month, int(day[1]) if day else 0, hour, int(clock[2]), int(clock[3])
        )
    except ValueError:
        return None


def _zone(date: str) -> timedelta | None:
    if _UTC.search(date):
        return timedelta()
    found = _ZONE.search(date)
    return _offset(found[1], found[2] or "0") if found else None


def _zone_of_day(local: datetime, stamps: Iterable[str]) -> timedelta | None:
    day = f"{local:%Y-%m-%d}"
    for line in stamps:
        found = _STAMP.search(line)
        if found and found[1] == day:
            return _offset(found[2], found[3])
    return None


def _offset(hours: str, minutes: str) -> timedelta:
    sign = -1 if hours.startswith("-") else 1
    return timedelta(hours=int(hours), minutes=sign * int(minutes))
