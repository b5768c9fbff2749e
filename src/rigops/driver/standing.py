"""The driver that a host is pinned to already, as long as it is what is declared and fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.driver import declared, fitness, secure_boot
from rigops.driver.request import Refusal, Resolution

if TYPE_CHECKING:
    from rigops.catalog.loader import Catalog
    from rigops.driver.machine import Machine
    from rigops.driver.request import Request
    from rigops.record.driver import PinnedDriver
    from rigops.spec import RigSpec


def standing(
    pinned: PinnedDriver | None, spec: RigSpec, seen: Machine, request: Request, known: Catalog
) -> Resolution | Refusal | None:
    """None: nothing was resolved for this declaration yet, or not all of it is in place."""
    if pinned is None or pinned.declared != declared.identity(spec):
        return None
    if any(seen.installed.get(name) != version for name, version in pinned.packages.items()):
        return None
    if pinned.prebuilt and not set(seen.own_kernels).issubset(pinned.prebuilt):
        return None
    return _unfit(pinned, seen, request, known) or again(pinned, seen)


def again(pinned: PinnedDriver, seen: Machine) -> Resolution:
    """As it was resolved."""
    return Resolution(
        version=pinned.version,
        flavour=pinned.flavour,
        packages=pinned.packages,
        asked=pinned.asked,
        sources=pinned.sources,
        also=pinned.also,
        prebuilt=pinned.prebuilt,
        set_=seen.set_,
        why="it is installed",
    )


def _unfit(pinned: PinnedDriver, seen: Machine, request: Request, known: Catalog) -> Refusal | None:
    """Another card was put in, the catalogue has learnt more, or Secure Boot was switched on."""
    if seen.takes_signed_only and not pinned.prebuilt:
        return secure_boot.unsigned(seen, request)
    _, refusal = fitness.flavours(known, pinned.version, seen.cards)
    if refusal is None and not request.allow_bad:
        return fitness.bad(known, pinned.version, seen.cards)
    return refusal
