"""Xids that belong together: one trouble makes the driver write several of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, Literal

from rigops.catalog import Catalog, find_xid
from rigops.catalog.model import Severity
from rigops.dataclass import dataclass
from rigops.probe.kernel_log import events
from rigops.probe.kernel_log.events import OFF_THE_BUS, KernelLog, Xid
from rigops.probe.sections.boots import SECTION as BOOTS
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS, XID_HISTORY
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.snapshot import HostSnapshot

ACTION_CHANGED: Final = 154
# They clean up or ask for action after another one, which may have been a while ago.
_FOLLOWERS: Final = frozenset({43, 45, ACTION_CHANGED})
_CLEANUP: Final = 45
_PREVIOUS: Final = re.compile(r"\bcaused by previous Xid (?P<number>[0-9]{1,4})\b")
# NVLink 5 writes both words: Fatal and Nonfatal.
_FATAL: Final = re.compile(r"\bFatal\b")
_PID: Final = re.compile(r"\bpid='?(?P<pid>[0-9]{1,10})\b")
_TOGETHER_S: Final = 2.0
_FOLLOWS_S: Final = 60.0
_GRAVEST_FIRST: Final[tuple[Severity, ...]] = ("fail", "warn", "info")
Boot = Literal["current", "previous", "older"]

_NUMBERS: dict[int, Boot] = {0: "current", -1: "previous"}


@dataclass(frozen=True, kw_only=True)
class Incident:
    """Reports of one card in one boot, from the same cause; it may have happened repeatedly."""

    number: int  # the cause
    address: str | None
    boot: Boot
    reports: tuple[Report, ...]

    @property
    def count(self) -> int:
        """How often the cause was reported. The same logs in two forms are no two reports."""
        counted = [one for one in self._of_cause if not one.xid.bus_drop] or self._of_cause
        return events.count(one.xid.entry for one in counted)

    @property
    def first(self) -> str | None:
        return min(self._moments, default=None)

    @property
    def last(self) -> str | None:
        return max(self._moments, default=None)

    @property
    def processes(self) -> frozenset[str]:
        return frozenset(one.xid.process for one in self.reports if one.xid.process)

    @property
    def details(self) -> tuple[str, ...]:
        return tuple(one.xid.detail for one in self.reports if one.xid.number == ACTION_CHANGED)

    @property
    def is_fatal(self) -> bool:
        """In the driver's own word."""
        return any(_FATAL.search(one.xid.detail) for one in self._of_cause)

    @property
    def programs(self) -> int:
        """How many runs of programs met it."""
        pids = (_PID.search(one.xid.entry.message) for one in self._of_cause)
        return len({pid["pid"] for pid in pids if pid})

    @property
    def _of_cause(self) -> list[Report]:
        return [one for one in self.reports if one.xid.number == self.number]

    @property
    def _moments(self) -> list[str]:
        return [one.xid.entry.at for one in self._of_cause if one.xid.entry.at]


def incidents(snapshot: HostSnapshot, catalog: Catalog) -> tuple[Incident, ...]:
    """One for each boot, card and cause; boots of the history are all "older"."""
    merged: dict[tuple[Boot, int | None, str | None, int], list[Report]] = {}
    for group in _groups(reports(snapshot)):
        one = group[0]
        address = next((each.xid.address for each in group if each.xid.address), None)
        # The first of the gravest: what programs suffer comes of what the hardware did.
        numbers = dict.fromkeys(one.xid.number for one in group)
        cause = min(numbers, key=lambda number: _GRAVEST_FIRST.index(severity(catalog, number)))
        merged.setdefault((one.boot, one.boot_number, address, cause), []).extend(group)
    return tuple(
        Incident(number=cause, address=address, boot=boot, reports=tuple(group))
        for (boot, _, address, cause), group in merged.items()
    )


def severity(catalog: Catalog, number: int) -> Severity:
    """An unknown number is at least a fault."""
    known = find_xid(catalog, number)
    return known.severity if known else "warn"


def _groups(found: Iterable[Report]) -> list[list[Report]]:
    groups: list[list[Report]] = []
    latest: dict[tuple[Boot, int | None, str | None], list[Report]] = {}
    for report in found:
        place = (report.boot, report.boot_number, report.xid.address)
        group = latest.get(place)
        if group is None and report.xid.bus_drop and report.xid.address is None:
            group = _drop_without_address(latest.values(), report)
        if group is not None and _belongs(report, group[-1]):
            group.append(report)
        else:
            latest[place] = [report]
            groups.append(latest[place])
    return groups


def _drop_without_address(latest: Iterable[list[Report]], report: Report) -> list[Report] | None:
    fits = (
        group
        for group in latest
        if (group[-1].boot, group[-1].boot_number) == (report.boot, report.boot_number)
        and any(one.xid.number == OFF_THE_BUS for one in group)
        and _belongs(report, group[-1])
    )
    return next(fits, None)


def _belongs(report: Report, before: Report) -> bool:
    one, other = before.xid.entry, report.xid.entry
    if _keeps_seconds(before) is not _keeps_seconds(report):
        return False
    if one.clock is None or other.clock is None:
        return True  # in a log without times, lines that follow each other go together
    most = _FOLLOWS_S if report.xid.number in _FOLLOWERS else _TOGETHER_S
    return abs(other.clock - one.clock) <= most


def _keeps_seconds(report: Report) -> bool:
    return report.xid.entry.seconds is not None


@dataclass(frozen=True, kw_only=True)
class Report:
    """`boot_number` distinguishes older boots: it counts back in the history."""

    xid: Xid
    section: str
    boot: Boot
    boot_number: int | None = None


def reports(snapshot: HostSnapshot) -> list[Report]:
    """In the order of the logs, those of this boot last. The history adds what they lack."""
    logs = [
        *_of_log(snapshot[KERNEL_LOG_PREVIOUS].value, KERNEL_LOG_PREVIOUS.name, -1),
        *_of_log(snapshot[KERNEL_LOG].value, KERNEL_LOG.name, 0),
    ]
    known = {_mark(one) for one in logs}
    history = [one for one in _of_history(snapshot) if _mark(one) not in known]
    return [*history, *logs]


def _mark(report: Report) -> tuple[object, ...]:
    entry = report.xid.entry
    return (report.boot, entry.message, entry.at, report.xid.number)


def _cause_of(xid: Xid) -> Xid:
    """A channel that is cleaned up names the Xid before it, which the log may have lost."""
    named = _PREVIOUS.search(xid.detail) if xid.number == _CLEANUP else None
    return replace(xid, number=int(named["number"])) if named else xid


def _of_log(log: KernelLog | None, section: str, last: int) -> list[Report]:
    return [
        Report(
            xid=_cause_of(xid),
            section=section,
            boot=_NUMBERS.get(number, "older"),
            boot_number=None if number in _NUMBERS else number,
        )
        for xid in (log.xids if log else ())
        for number in [xid.entry.boot + last]
    ]


def _of_history(snapshot: HostSnapshot) -> list[Report]:
    log, starts = snapshot[XID_HISTORY].value, _starts(snapshot)
    found = []
    for xid in log.xids if log else ():
        boot = starts.boot_of(xid)
        number = xid.entry.boot if boot == "older" else None
        found.append(
            Report(xid=_cause_of(xid), section=XID_HISTORY.name, boot=boot, boot_number=number)
        )
    return found


@dataclass(frozen=True, kw_only=True)
class _Starts:
    """When the last two boots began, and whether the log of the first of them is complete."""

    current: str | None
    previous: str | None
    previous_is_known: bool

    def boot_of(self, xid: Xid) -> Boot:
        at, number = xid.entry.at, xid.entry.boot
        if at is None or self.current is None:
            return _NUMBERS.get(number, "older")
        if at >= self.current:
            return "current"
        if self.previous is not None:
            return "previous" if at >= self.previous else "older"
        return "older" if self.previous_is_known or number not in _NUMBERS else "previous"


def _starts(snapshot: HostSnapshot) -> _Starts:
    """The list of boots knows best; a log may have lost its beginning."""
    listed = {one.offset: one.first for one in (snapshot[BOOTS].or_empty.boots)}
    current, previous = snapshot[KERNEL_LOG].value, snapshot[KERNEL_LOG_PREVIOUS].value
    return _Starts(
        current=listed.get(0) or (current.first_at if current else None),
        previous=listed.get(-1) or (previous.first_at if previous else None),
        previous_is_known=previous is not None and snapshot[KERNEL_LOG_PREVIOUS].is_complete,
    )
