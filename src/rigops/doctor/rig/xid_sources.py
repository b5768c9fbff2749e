"""Every Xid that any log tells of, once, and in which boot it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rigops.doctor.rig.kernel_logs import CURRENT, HISTORY, PREVIOUS

if TYPE_CHECKING:
    from rigops.probe.facts import HostFacts
    from rigops.probe.kernel_log import KernelLog, Xid

Boot = Literal["current", "previous", "older"]

_NUMBERS: dict[int, Boot] = {0: "current", -1: "previous"}


@dataclass(frozen=True, kw_only=True)
class Report:
    """`boot_number` tells older boots from each other: it counts back in the history."""

    xid: Xid
    section: str
    boot: Boot
    boot_number: int | None = None


def reports(facts: HostFacts) -> list[Report]:
    """In the order of the logs, those of this boot last. The history adds what they lack."""
    logs = [
        *_of_log(facts.kernel_log_previous, PREVIOUS, -1),
        *_of_log(facts.kernel_log, CURRENT, 0),
    ]
    known = {_mark(one) for one in logs}
    told = [one for one in _of_history(facts) if _mark(one) not in known]
    return [*told, *logs]


def _mark(report: Report) -> tuple[object, ...]:
    entry = report.xid.entry
    return (report.boot, entry.message, entry.at, report.xid.number)


def _of_log(log: KernelLog | None, section: str, last: int) -> list[Report]:
    return [
        Report(
            xid=xid,
            section=section,
            boot=_NUMBERS.get(xid.entry.boot + last, "older"),
            boot_number=_older(xid.entry.boot + last),
        )
        for xid in (log.xids if log else ())
    ]


def _older(number: int) -> int | None:
    return None if number in _NUMBERS else number


def _of_history(facts: HostFacts) -> list[Report]:
    log, starts = facts.xid_history, _starts(facts)
    found = []
    for xid in log.xids if log else ():
        boot = starts.boot_of(xid)
        number = xid.entry.boot if boot == "older" else None
        found.append(Report(xid=xid, section=HISTORY, boot=boot, boot_number=number))
    return found


@dataclass(frozen=True, kw_only=True)
class _Starts:
    """When the last two boots began, and whether the log of the first of them tells all of it."""

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


def _starts(facts: HostFacts) -> _Starts:
    """The list of boots knows best; a log may have lost its beginning."""
    listed = {one.offset: one.first for one in (facts.boots.boots if facts.boots else ())}
    current, previous = facts.kernel_log, facts.kernel_log_previous
    return _Starts(
        current=listed.get(0) or (current.first_at if current else None),
        previous=listed.get(-1) or (previous.first_at if previous else None),
        previous_is_known=previous is not None and facts.is_whole(PREVIOUS),
    )
