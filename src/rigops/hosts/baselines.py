"""Baselines of hosts, stored on this machine: after a proof, or because a person asks."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rigops.catalog import Catalog
from rigops.dataclass import dataclass
from rigops.doctor.checks.drift import drift
from rigops.doctor.checks.presence import count, lost
from rigops.doctor.examined import Examined
from rigops.doctor.registry import examine, sections_for
from rigops.doctor.views.changes import changes, is_other_machine, missing
from rigops.doctor.views.error_counters import KINDS
from rigops.doctor.views.observed import observed
from rigops.errors import RigopsError
from rigops.hosts.probing import internal_error
from rigops.inventory.spec import RigSpec
from rigops.probe.collect import ProbeError, collect
from rigops.probe.snapshot import HostSnapshot
from rigops.record import baseline, journal
from rigops.record.baseline import Baseline
from rigops.transport import Connection, Privilege, TransportError

# They have to be there: what is missing is never how a host should be.
_CARDS: Final = (count, lost)


@dataclass(frozen=True)
class Stored:
    """`text`: what was stored, or why nothing was."""

    text: str
    is_stored: bool = False


def take_after_proof(
    connection: Connection,
    privilege: Privilege | None,
    spec: RigSpec | None,
    catalog: Catalog,
    *,
    host: str,
    by: str,
) -> Stored:
    """One exec. What got worse since an earlier baseline stays to be seen: that one is kept.

    A proof stays one, whatever goes wrong here.
    """
    sections = sections_for((drift, *_CARDS))
    try:
        found = collect(
            connection, sections, host=host, as_root=privilege, collected_at=journal.now()
        )
        return store(HostSnapshot(found.bundle), spec, catalog, host=host, by=by)
    except (TransportError, ProbeError) as error:
        return Stored(f"{host}: no baseline stored: {error}")
    except Exception as error:  # noqa: BLE001 - logged and reported
        why = internal_error(host, error)
        return Stored(f"{host}: no baseline stored: {why.message}; fix: {why.fix}")


def store(
    snapshot: HostSnapshot,
    spec: RigSpec | None,
    catalog: Catalog,
    *,
    host: str,
    by: str,
    is_asked: bool = False,
) -> Stored:
    """`is_asked`: by a person, so that nothing is kept for what got worse."""
    try:
        earlier = baseline.read(host)
        examined = Examined(snapshot, spec or RigSpec(), catalog, baseline=earlier)
        now = replace(observed(examined), host=host, by=by, who=journal.who())
        if why := _obstacle(examined, now, is_asked=is_asked):
            kept = f"; that of {earlier.day} is kept" if earlier else ""
            return Stored(f"{host}: no baseline stored: {why}{kept}")
        baseline.write(now)
    except RigopsError as error:
        place = ", ".join(one.file for one in error.problems if one.file)
        return Stored(f"{host}: no baseline stored: {error} ({place}); fix: {error.fix}")
    replaced = f", in place of that of {earlier.day}" if earlier else ""
    return Stored(f"{host}: baseline stored{replaced}: {described(now)}", is_stored=True)


def _obstacle(examined: Examined, now: Baseline, *, is_asked: bool) -> str:
    findings = examine(examined.snapshot, examined.spec, examined.catalog, checks=_CARDS)
    if failed := next((one for one in findings if one.status == "fail"), None):
        return f"{failed.id} fails: {failed.summary}"
    if now.cards is None:
        return "which cards there are could not be read to the end"
    if not now.at:
        return "when it was collected is not known"
    earlier = examined.baseline
    return _loss(examined, earlier, now, is_asked=is_asked) if earlier else ""


def _loss(examined: Examined, earlier: Baseline, now: Baseline, *, is_asked: bool) -> str:
    """What would be lost with the earlier one."""
    if is_other_machine(earlier, now):
        return ""
    if lacking := missing(earlier, now):
        path = baseline.path_of(now.host)
        return f"this time not collected: {', '.join(lacking)}; fix: look as root, or remove {path}"
    worse = [one for one in changes(examined) if one.status in {"fail", "warn"}]
    if is_asked or not worse:
        return ""
    what = worse[0].summary(earlier.day)
    return f"{what}; fix: `rigops doctor {now.host}`, and --save-baseline where that is meant"


def described(one: Baseline) -> str:
    """In a line."""
    cards = len(one.cards) if one.cards is not None else None
    parts = [
        f"{cards} GPU{'s' * (cards != 1)}" if cards is not None else "",
        f"driver {one.driver}" if one.driver else "",
        f"BIOS {one.bios}" if one.bios else "",
        f"{len(one.modules)} memory modules" if one.modules is not None else "",
        f"{len(one.counters)} of {len(KINDS)} kinds of error counters",
    ]
    return ", ".join(filter(None, parts))
