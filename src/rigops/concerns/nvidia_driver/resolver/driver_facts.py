"""Everything that decides which driver a host gets, as a deploy or one probe collects it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from packaging.specifiers import SpecifierSet

from rigops.catalog.loader import Catalog
from rigops.catalog.model import ModuleFlavor
from rigops.concerns.nvidia_driver.record import PinnedDriver
from rigops.concerns.nvidia_driver.resolver import request
from rigops.concerns.nvidia_driver.resolver.offers import Offer, Offers
from rigops.concerns.nvidia_driver.resolver.request import Blocker, Request
from rigops.concerns.nvidia_driver.resolver.vault_sets import VaultContents, offers
from rigops.dataclass import dataclass
from rigops.errors import RigopsError
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.model import DriverDeclaration, DriverSet, Flavor
from rigops.probe.package_names import RUN_FILE, is_driver, is_driver_tool
from rigops.vault.directory import Directory
from rigops.vault.pinned_set import PinnedPackage, PinnedSet, index_text
from rigops.vault.store import Store

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.apt_offers import Offered
    from rigops.concerns.nvidia_driver.resolver.machine import Machine


INSTALLED: Final = "installed here"  # a place, as printed


@dataclass(frozen=True)
class Loaded:
    version: str
    flavor: ModuleFlavor | None


@dataclass(frozen=True)
class Folder:
    """The declared folder of this machine, with the control fields of each file in it."""

    name: str
    records: tuple[tuple[PinnedPackage, Mapping[str, str]], ...]
    origin: Directory

    def offers(self, sources: Offers) -> Offers:
        """The drivers that are in it; other packages come from the sources."""
        others = Offers(tuple(one for one in sources.every if not is_driver(one.name)))
        return others.and_also(
            offers(index_text(self.records), place=f"{self.name} on this machine")
        )


@dataclass(frozen=True, kw_only=True)
class VaultAccess:
    """Sources of a run of rigops. `back`: only earlier proven drivers."""

    sets: tuple[PinnedSet, ...]  # of the lockfile, proven last first
    locked: str  # the version that was proven last
    store: Store
    back: bool = False


@dataclass(frozen=True, kw_only=True)
class DriverFacts:
    """None is what was not collected."""

    machine: Machine
    catalog: Catalog
    spec: RigSpec = field(default_factory=RigSpec)
    loaded: Loaded | None = None
    pinned: PinnedDriver | None = None
    offered: Offered | None = None
    # The text of rigops' own file of sources that `offered` is with, or why there can be none.
    source: str | Blocker | None = None
    folder: Folder | Blocker | None = None  # the blocker: why it cannot be used
    vault: VaultAccess | None = None  # None: plain pyinfra, which has no lockfile
    contents: VaultContents | None = None
    last_proven: PinnedSet | None = None
    rollback_target: PinnedSet | None = None  # of a rollback that has begun
    upgrade: bool = False
    own_modules: str = ""  # the version of the owner's own modules: no other will do

    @cached_property
    def offers(self) -> Offers:
        """Of the package sources, and the .run file that rigops installed: it stays available."""
        own = self.offered.offers if self.offered else Offers()
        spec = self.spec
        stays = installed_run_file(self.machine, spec.driver_flavor or "auto", spec.driver_set)
        return own.and_also(Offers(stays)) if stays else own

    @property
    def locked(self) -> str:
        """The version that was proven here last."""
        if self.pinned:
            return self.pinned.version
        return self.vault.locked if self.vault else ""

    @property
    def set_(self) -> DriverSet | None:
        """The declared one. A reinstalled machine gets the one that it had.

        Until its driver is pinned, what is installed may be a part, where apt was cut off.
        """
        installed = self.machine.installed
        if self.spec.driver_set or self.last_proven is None or (installed and self.pinned):
            return self.spec.driver_set
        has_desktop = bool(installed) and self.machine.set_ == "desktop"
        return "desktop" if has_desktop else set_of(self.machine, self.last_proven)

    @property
    def tools(self) -> tuple[str, ...]:
        """Those that a reinstalled machine had."""
        if self.pinned or self.last_proven is None:
            return ()
        return tuple(one.name for one in self.last_proven.packages if is_driver_tool(one.name))

    def request(self, driver: DriverDeclaration) -> Request:
        found = request.request(self.spec, driver, locked=self.locked, upgrade=self.upgrade)
        found = replace(found, set_=self.set_, tools=self.tools)
        if not self.own_modules:
            return found
        exact = SpecifierSet(f"=={self.own_modules}")
        only = DriverDeclaration("version", self.own_modules, exact)
        return replace(found, driver=only, flavor="open", is_of_tree=True)


def installed_run_file(
    machine: Machine, flavor: Flavor = "auto", set_: DriverSet | None = None
) -> tuple[Offer, ...]:
    """The .run file that rigops installed: where it is as declared, no source is needed."""
    found = machine.run_file
    version = machine.installed.get(RUN_FILE)
    if not version or not found or flavor not in {"auto", found.flavor}:
        return ()
    return (
        () if set_ not in {None, found.set_} else (Offer(RUN_FILE, version, places=(INSTALLED,)),)
    )


def set_of(machine: Machine, proven: PinnedSet) -> DriverSet:
    return replace(machine, installed={one.name: one.version for one in proven.packages}).set_


def folder_of(spec: RigSpec) -> Folder | Blocker | None:
    """Reads every file in it. None: the spec declares no folder."""
    if spec.driver_source is None or spec.driver_source.kind != "dir":
        return None
    directory = Directory(spec.driver_source.directory)
    try:
        return Folder(str(directory.folder), directory.records, directory)
    except RigopsError as error:
        fixes = (one.fix for one in error.problems)
        return Blocker(str(error), "; ".join(filter(None, fixes)))
