"""What apply would come to, by what one look at a machine and at this one has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.driver import proven
from rigops.driver.offers import Offers
from rigops.driver.origins import of_source, resolve_from
from rigops.driver.request import Refusal
from rigops.driver.resolve import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.catalog.loader import Catalog
    from rigops.driver.choice import Folder, Proven, Seen
    from rigops.driver.machine import Machine
    from rigops.driver.request import Request, Resolution


def foreseen(
    seen: Seen,
    machine: Machine,
    request: Request,
    catalog: Catalog,
    unusable: Refusal | None = None,
) -> Resolution | Refusal:
    """`unusable`: why the sources are not asked."""
    if request.source == "dir" and seen.folder:
        return _of_folder(machine, request, seen.folder, catalog)
    wrong = unusable if machine.manager == "apt" else None
    without = wrong or resolve_from(machine, request, seen.offers, catalog)
    sets = proven.that_count(seen.kept.sets if seen.kept else (), machine, request, without)
    if not sets:
        return without
    own = of_source(seen.offers, request.source, machine)
    found = resolve(machine, request, _beside(seen, own, sets), catalog)
    if isinstance(found, Refusal) or proven.has(own, found.packages):
        return found
    return found if any(one.version == found.version for one in sets) else without


def _beside(seen: Seen, own: Offers, sets: Iterable[Proven]) -> Offers:
    """In the order of all: that of packages' versions is not known here."""
    kept = (one for its in sets for one in its.offers.every)
    found = {(one.name, one.version): one for one in (*kept, *own.every)}
    every = ((one.name, one.version) for one in seen.every.every)
    return Offers(tuple(found[key] for key in every if key in found))


def _of_folder(
    machine: Machine, request: Request, folder: Folder | Refusal, catalog: Catalog
) -> Resolution | Refusal:
    if isinstance(folder, Refusal):
        return folder
    found = resolve(machine, request, folder.offers, catalog)
    if isinstance(found, Refusal):
        return Refusal(f"of {folder.name}: {found.reason}", found.cure)
    return found
