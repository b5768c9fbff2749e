"""Xids: what the driver writes into the kernel log when a card is in trouble."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rigops.catalog import find_xid
from rigops.doctor import rig
from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Evidence, Finding
from rigops.doctor.rig import driver_state, kernel_logs
from rigops.doctor.rig.incidents import ACTION_CHANGED, incidents, severity
from rigops.doctor.rig.xid_remedies import action, hit_a_peer_test, remedy

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rigops.doctor.finding import Status
    from rigops.doctor.rig.incidents import Incident
    from rigops.doctor.rig.kernel_logs import Read

XID = "xid"

_SHOWN = 4
_OLDER_SHOWN = 5
_NOT_LISTED = "not in the catalogue"


def xid(examined: Examined) -> list[Finding]:
    found = incidents(examined.facts, examined.catalog)
    boots = Counter((one.number, one.address) for one in found)
    recent = [one for one in found if one.boot != "older"]
    older = [one for one in found if one.boot == "older"]
    told = [
        _incident(examined, one, came_back=boots[one.number, one.address] > 1) for one in recent
    ]
    told += _older(older) if older else []
    return [*told, *_rest(examined, recent, older)]


def _incident(examined: Examined, incident: Incident, *, came_back: bool) -> Finding:
    known = find_xid(examined.catalog, incident.number)
    status = _status(examined, incident)
    return Finding(
        id=XID,
        status=status,
        subject=f"gpu {incident.address or 'unknown'}",
        summary=_summary(incident, known.meaning if known else _NOT_LISTED, came_back=came_back),
        evidence=_evidence(incident),
        why=known.reading if known else "",
        remedy=None
        if status == "info" and not action(incident)
        else remedy(examined, incident, came_back=came_back),
        data={
            "xid": incident.number,
            "count": incident.count,
            "first": incident.first,
            "last": incident.last,
            "boot": incident.boot,
        },
    )


def _status(examined: Examined, incident: Incident) -> Status:
    if hit_a_peer_test(incident):
        return "fail"
    by_number = severity(examined.catalog, incident.number)
    is_owed = incident.number == ACTION_CHANGED and incident.boot == "current" and action(incident)
    return "warn" if is_owed and by_number == "info" else by_number


def _summary(incident: Incident, meaning: str, *, came_back: bool) -> str:
    others = list(
        dict.fromkeys(
            one.xid.number for one in incident.reports if one.xid.number != incident.number
        )
    )
    return "".join(
        (
            f"Xid {incident.number}: {meaning}",
            f", {incident.count} times" if incident.count > 1 else "",
            f", with Xid {', '.join(map(str, others))}" if others else "",
            " (in the previous boot)" if incident.boot == "previous" else "",
            "; not the first boot with it" if came_back else "",
        )
    )


def _evidence(incident: Incident) -> tuple[Evidence, ...]:
    lines = list(
        dict.fromkeys(Evidence(one.section, one.xid.entry.line) for one in incident.reports)
    )
    return tuple(lines if len(lines) <= _SHOWN else [*lines[: _SHOWN - 1], lines[-1]])


def _older(older: Sequence[Incident]) -> list[Finding]:
    """Boots before the previous one: so that a trouble that comes back is seen as one."""
    times = Counter[tuple[int, str | None]]()
    for one in older:
        times[one.number, one.address] += one.count
    words = [
        f"Xid {number} on {address or 'a card that is not named'} ({count} times)"
        for (number, address), count in times.most_common(_OLDER_SHOWN)
    ]
    return [
        Finding(
            id=XID,
            status="info",
            summary=f"in boots before the last two: {', '.join(words)}",
            evidence=tuple(_evidence(one)[-1] for one in older[-_OLDER_SHOWN:]),
            why="It is long over, and matters only if it comes back.",
        )
    ]


def _rest(
    examined: Examined, recent: Collection[Incident], older: Collection[Incident]
) -> list[Finding]:
    """What the logs prove by telling nothing."""
    facts = examined.facts
    current = kernel_logs.read(facts, "current")
    if not recent and not older and rig.has_no_gpu(examined):
        return [_finding("skipped", driver_state.NO_GPU)]
    if current.gap:
        return [_unknown(current, "in this boot")]
    if recent or older:
        return []
    if current.log and current.log.starts_at_boot is False:
        summary = "no Xid in what is left of this boot's kernel log; its beginning is lost"
        return [_finding("info", summary, "The kernel keeps a short log; a journal keeps all.")]
    if driver_state.loaded(examined).is_loaded is False:
        return [_finding("skipped", f"{driver_state.NOT_LOADED}, which alone reports Xids")]
    return [_finding("ok", f"no Xid in this boot's kernel log{_about_previous(examined)}")]


def _about_previous(examined: Examined) -> str:
    previous = kernel_logs.read(examined.facts, "previous")
    if previous.gap:
        return f"; that of the previous boot {previous.gap}"
    is_kept = previous.log is not None and previous.log.absent is None
    return " and the previous boot's" if is_kept else "; none is kept of the previous boot"


def _unknown(read: Read, where: str) -> Finding:
    said = read.log.unread[:_SHOWN] if read.log else ()
    return Finding(
        id=XID,
        status="unknown",
        summary=f"whether there was an Xid {where} is not known: the kernel log {read.gap}",
        evidence=tuple(Evidence(kernel_logs.CURRENT, line) for line in said),
        essential=read.is_grave,
    )


def _finding(status: Status, summary: str, why: str = "") -> Finding:
    return Finding(id=XID, status=status, summary=summary, why=why)


CHECKS = (
    Check(
        id=XID,
        title="The driver has reported no trouble with a card (Xid)",
        explanation=(
            "Reads the kernel log of this boot and of the one before for `NVRM: Xid` and for cards "
            "that have fallen off the bus, and the Xids of 90 days to see what comes back after a "
            "reboot. Several Xids of one card within two seconds are one incident, named after the "
            "first of the gravest; how grave a number is says the catalogue. A log that could not "
            "be read is never taken for a clean one: it leaves this unknown, and the whole host "
            "where it timed out or is missing although there was root."
        ),
        run=xid,
    ),
)
