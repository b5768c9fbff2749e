"""The exact packages of the proven driver are on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.capture.document import Requirement
from rigops.doctor.finding import Evidence
from rigops.vault.store import amount

if TYPE_CHECKING:
    from rigops.capture.subject import Subject

_SHOWN: Final = 3
_FIX: Final = "rigops apply, which fetches them from the host"


def judge_vault(subject: Subject) -> Requirement:
    """Every package that the lockfile names, by its digest."""
    if subject.spec.driver is None:
        return Requirement(id="vault", status="skipped", summary="driver is not declared")
    locked, own = subject.locked, subject.controller
    pinned = locked.sets[0] if locked and locked.sets else None
    if pinned is None:
        return Requirement(
            id="vault",
            status="fail",
            summary="the lockfile names no packages of the driver",
            fix=_FIX,
        )
    evidence = (Evidence("lockfile", f"driver {pinned.version}: index {pinned.index}"),)
    if locked and pinned.version != locked.driver.version:
        return Requirement(
            id="vault",
            status="fail",
            summary=f"the packages are of driver {pinned.version}, "
            f"proven was {locked.driver.version}",
            evidence=evidence,
            fix=_FIX,
        )
    if own.missing or own.damaged or not own.has_index:
        return Requirement(
            id="vault",
            status="fail",
            summary=f"{own.vault} is incomplete: {_what(own.missing, own.damaged)}",
            evidence=evidence,
            fix=_FIX,
        )
    return Requirement(
        id="vault",
        status="ok",
        summary=f"all {len(pinned.packages)} packages of driver {pinned.version} are in "
        f"{own.vault} ({amount(pinned.size)}, digests checked)",
        evidence=evidence,
    )


def _what(missing: tuple[str, ...], damaged: tuple[str, ...]) -> str:
    parts = [
        f"{len(names)} {what} ({', '.join(names[:_SHOWN])}{', …' * (len(names) > _SHOWN)})"
        for what, names in (("missing", missing), ("damaged", damaged))
        if names
    ]
    return "; ".join(parts) or "its index is missing"
