"""Which driver of those that were proven before is to be had from the vault."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from rigops.driver import declared, proven
from rigops.driver.request import Refusal, Request, Resolution
from rigops.driver.resolve import resolve
from rigops.facts.driver_vault_offers import joined, of_folder, offers
from rigops.operations import driver_vault as vault
from rigops.operations.driver_vault import Usable
from rigops.probe.package_names import RUN_FILE, is_driver
from rigops.spec.model import DriverWish
from rigops.vault import index
from rigops.vault.directory import Directory

if TYPE_CHECKING:
    from pyinfra.api.host import Host

    from rigops.catalog.loader import Catalog
    from rigops.driver.machine import Machine
    from rigops.driver.offers import Offers
    from rigops.operations.driver_vault import Shelf
    from rigops.spec import RigSpec
    from rigops.spec.model import DriverSet
    from rigops.vault.kept import KeptSet


@dataclass(frozen=True)
class Taken:
    resolution: Resolution
    taken: Usable


@dataclass(frozen=True, kw_only=True)
class Earlier(Taken):
    """`declared`: what it is the answer to, as it is recorded."""

    declared: str
    is_installed: bool


@dataclass(frozen=True)
class Kept:
    """What a machine was proven with, for the resolver."""

    host: Host
    shelf: Shelf
    machine: Machine
    known: Catalog

    def of_directory(
        self, declared: str, request: Request, own: Offers
    ) -> Resolution | Refusal | Taken:
        """The driver that lies in a folder of this machine; other things come from the sources."""
        directory = Directory(declared)
        every = of_folder(own, directory)
        if isinstance(every, Refusal):
            return every
        resolution = resolve(self.machine, request, every, self.known)
        if isinstance(resolution, Refusal):
            return Refusal(f"of {directory.folder}: {resolution.reason}", resolution.cure)
        coming = [
            (one, record)
            for one, record in directory.records
            if resolution.packages.get(one.name, one.version) == one.version
            and (one.name in resolution.packages or not _is_another_kind(one.name, resolution))
        ]
        packages = tuple(one for one, _ in coming)
        text = index.text_of(coming)
        return vault.clash(self.host, packages) or Taken(
            resolution, Usable(resolution.version, packages, text, directory)
        )

    def instead_of(
        self, without: Resolution | Refusal, request: Request, own: Offers
    ) -> Resolution | Refusal | Taken:
        """What was proven comes before others. `without`: what the sources alone would bring."""
        fitting = proven.that_count(self.shelf.sets, self.machine, request, without)
        if not fitting:
            return without
        if wrong := vault.tampered(self.host, fitting):
            return wrong
        found, refusals = vault.usable(self.host, self.shelf, fitting)
        if not found:
            return _told(without, refusals)
        every = joined(own, offers(*(one.index for one in found)))
        resolution = resolve(self.machine, request, every, self.known)
        if isinstance(resolution, Refusal) or proven.has(own, resolution.packages):
            return resolution
        taken = next((one for one in found if one.version == resolution.version), None)
        return Taken(resolution, taken) if taken else without


def _is_another_kind(name: str, wanted: Resolution) -> bool:
    """The .run file where packages come, and the driver's packages where that comes."""
    return name == RUN_FILE or (wanted.is_run_file and is_driver(name))


def as_proven(request: Request, seen: Machine, shelf: Shelf | None) -> Request:
    """A reinstalled machine gets the part of the driver that it had, unless one is declared."""
    if request.set_ or seen.installed or shelf is None or not shelf.sets:
        return request
    return replace(request, set_=_set_of(seen, shelf.sets[0]))


def earlier(
    host: Host, shelf: Shelf, spec: RigSpec, seen: Machine, known: Catalog
) -> Earlier | Refusal:
    """What was proven before the driver that is there, and nothing that any source has."""
    kept = vault.target(host, shelf, seen.installed)
    if kept is None:
        return _nothing_earlier(shelf)
    if wrong := vault.tampered(host, [kept]):
        return wrong
    found, refusals = vault.usable(host, shelf, [kept])
    if refusals:
        return refusals[0]
    wish = DriverWish("version", kept.version, SpecifierSet(f"=={kept.version}"))
    request = Request(
        wish=wish,
        flavor=kept.flavour,
        set_=_set_of(seen, kept),
        allow_bad=bool(spec.driver_allow_bad),
        locked=kept.version,
        source="vault",
    )
    resolution = resolve(seen, request, offers(found[0].index), known)
    if isinstance(resolution, Refusal):
        return resolution
    is_declared = spec.driver is not None and declared.request(spec, spec.driver).takes(
        kept.version
    )
    return Earlier(
        resolution,
        found[0],
        declared=declared.identity(spec) if is_declared else f"rollback to {kept.version}",
        is_installed=vault.is_installed(kept, seen.installed),
    )


def _told(without: Resolution | Refusal, refusals: list[Refusal]) -> Resolution | Refusal:
    """What the sources have is better than nothing, and no secret."""
    why = refusals[0]
    if isinstance(without, Resolution):
        return replace(without, notes=(*without.notes, str(why)))
    return Refusal(f"{without.reason}; {why.reason}", without.cure or why.cure)


def _set_of(seen: Machine, kept: KeptSet) -> DriverSet:
    return replace(seen, installed={one.name: one.version for one in kept.packages}).set_


def _nothing_earlier(shelf: Shelf) -> Refusal:
    there = " and ".join(f"{one.version}, proven {one.at}" for one in shelf.sets)
    return Refusal(
        "no driver that was proven here before the present one is kept",
        f"there is only {there}" if there else "nothing was proven yet: rigops apply does it",
    )
