"""Prefixes of the message of a log line: priorities, timestamps, the host, "kernel:"."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

from rigops.dataclass import dataclass

# Quoting and indentation of a copy, then what dmesg -x and dmesg -r put first.
_BEFORE: Final = re.compile(
    r"\s*(?:>[ \t]?){0,9}\s*"
    r"(?:<[0-9]{1,3}>(?:1 )?|(?:kern|user|daemon|syslog|auth|authpriv|cron|local[0-7]) *:"
    r"(?:emerg|alert|crit|err|warn|notice|info|debug) *: ?|"
    r"(?:\S{1,255}: )?kern: {1,8}[a-z]{3,9}: (?=\[[0-9]{4}-))?"  # of talosctl
)
_ISO: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}"
_STAMP: Final = re.compile(
    r"\[ {0,12}(?P<up>[0-9]{1,10}\.[0-9]{1,9})(?: +<[^>\]]{1,20}>)?\](?:\[ *[TC][0-9]{1,9}\])?"
    r"|\[ {0,12}\+(?P<delta>[0-9]{1,8}\.[0-9]{1,9})\]"
    r"|\[<[ 0-9.]{1,24}>\]"
    r"|\[(?P<minute>[^\]\s]{1,12}? ?[0-9]{1,2} +[0-9]{2}:[0-9]{2})\]"
    rf"|\[(?P<talos>{_ISO}\.[0-9]{{1,9}})Z\]:"
    r"|\[(?P<human>[^\]]{1,40}?[0-9]{1,2} [0-9]{2}:[0-9]{2}:[0-9]{2} [0-9]{4})\]"
    rf"|(?:[^\W\d_]{{2,10}}\.? )?(?P<iso>{_ISO})(?P<part>[.,][0-9]{{1,9}})?"
    r"(?: ?(?P<zone>Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2})|(?: [A-Z]{3,5})?)(?=\s|$)"
    r"|(?P<syslog>\S{1,12} +[0-9]{1,2} (?:[0-9]{4} )?[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]{1,9})?"
    r"(?=\s)"
    r"|[0-9]{1,5},[0-9]{1,20},(?P<kmsg>[0-9]{1,18}),[^;]{0,60};"
    r"|(?P<unix>[0-9]{9,11}\.[0-9]{1,9})(?=\s\S+\skernel:)"
)
_ORIGIN: Final = re.compile(
    r"\s*\S{1,255}(?<!:)[ \t]+(?P<program>[^\s:\[\](){}<>]{1,64})(?:\[[0-9]{1,10}\])?:(?:\s|$)"
)
_FROM_KERNEL: Final = re.compile(r"\s*(?:\S{1,255}\s+)?kernel(?:: | - - - )\s*")
_INNER: Final = re.compile(
    r"\s*\[ {0,12}(?P<up>[0-9]{1,10}\.[0-9]{1,9})\](?:\[ *[TC][0-9]{1,9}\])?"
)
_TIME: Final = re.compile(
    r"(?P<day>[0-9]{1,2}) +(?:[0-9]{4} )?(?P<time>[0-9]{2}(?::[0-9]{2}){1,2})"
)
MONTHS: Final = (
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
)  # fmt: skip
_DAY_S: Final = 86_400

RELATIVE: Final = frozenset({"delta", "minute"})


@dataclass(frozen=True, kw_only=True)
class Stamped:
    """`form` is None where the line has no timestamp of any form that is known."""

    message: str
    form: str | None = None
    value: str = ""
    zone: str = ""
    seconds: float | None = None
    is_kernels: bool = True  # False: a syslog line of another program


@lru_cache(maxsize=2)  # readers of pastes ask several questions of a line in turn
def read(line: str) -> Stamped:
    start = _BEFORE.match(line)
    rest = line[start.end() :] if start else line
    stamp = _STAMP.match(rest)
    if stamp is None:
        return Stamped(message=_message("", rest)[0].strip())
    form = stamp.lastgroup or "apart"
    if form in {"part", "zone"}:
        form = "iso"
    value = (stamp[form] if form != "apart" else "") + (stamp["part"] or "").replace(",", ".")
    after = rest[stamp.end() :]
    seconds = float(value) if form == "up" else int(value) / 1e6 if form == "kmsg" else None
    message, is_kernels = _message(form, after)
    inner = _INNER.match(message)
    if inner:
        message, seconds = (
            message[inner.end() :],
            float(inner["up"]) if seconds is None else seconds,
        )
    return Stamped(
        message=message.removeprefix(" ").removeprefix("kernel: ").strip(),
        form="iso" if form == "talos" else form,
        value=value,
        zone="Z" if form == "talos" else stamp["zone"] or "",
        seconds=seconds,
        is_kernels=is_kernels,
    )


def without_inner(message: str) -> str:
    inner = _INNER.match(message)
    return message[inner.end() :].strip() if inner else message


def _message(form: str, after: str) -> tuple[str, bool]:
    kernel = _FROM_KERNEL.match(after)
    if kernel:
        return after[kernel.end() :], True
    if form in {"iso", "syslog", "unix"} and _ORIGIN.match(after):
        return after, False
    return after, True


class Clock:
    """Turns one log's timestamps into seconds that may be compared with each other."""

    def __init__(self) -> None:
        self._now: float | None = None  # dmesg -H gives most lines as what passed since the last

    def read(self, stamped: Stamped) -> float | None:
        if stamped.form == "delta":
            passed = float(stamped.value)
            self._now = passed if self._now is None else self._now + passed
            return self._now
        if stamped.form == "minute":
            self._now = _of_year(stamped.value)
            return self._now
        return wall(stamped)


def wall(stamped: Stamped) -> float | None:
    if stamped.form in {"human", "syslog"}:
        return _of_year(stamped.value)
    if stamped.form == "iso":
        moment = _moment(stamped.value, stamped.zone)
        return moment.timestamp() if moment else None
    return float(stamped.value) if stamped.form == "unix" else None


def utc(stamped: Stamped) -> str | None:
    """Where year and zone can be known."""
    if stamped.form == "unix":
        moment = datetime.fromtimestamp(int(stamped.value.partition(".")[0]), timezone.utc)
    elif stamped.form == "iso" and stamped.zone:
        known = _moment(stamped.value, stamped.zone)
        if known is None:
            return None
        moment = known
    else:
        return None
    return moment.replace(microsecond=0, tzinfo=None).isoformat() + "Z"


@lru_cache(maxsize=2)  # it is asked for in two forms
def _moment(value: str, zone: str) -> datetime | None:
    whole, _, part = value.replace("T", " ").partition(".")
    try:
        local = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc)
        return local - _offset(zone) + timedelta(seconds=float(f"0.{part or 0}"))
    except (ValueError, OverflowError):
        return None


def _offset(zone: str) -> timedelta:
    if len(zone) < len("+0000"):
        return timedelta()
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return timedelta(minutes=-minutes if zone.startswith("-") else minutes)


def _of_year(text: str) -> float | None:
    """Month names of other languages count as one month: only differences matter."""
    found = _TIME.search(text)
    if found is None:
        return None
    words = text[: found.start()].lower().split()
    month = next((MONTHS.index(word[:3]) for word in words if word[:3] in MONTHS), 0)
    hours, minutes, *more = (int(part) for part in found["time"].split(":"))
    day = month * 31 + int(found["day"])
    return day * _DAY_S + hours * 3600.0 + minutes * 60 + sum(more)
