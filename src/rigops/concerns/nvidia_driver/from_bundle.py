"""Everything that decides over a host's driver, as far as one collection of sections brings it.

And the drivers that such a host could have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rigops.catalog import Catalog
from rigops.concerns.nvidia_driver import record
from rigops.concerns.nvidia_driver.apt_offers import offers_section
from rigops.concerns.nvidia_driver.resolver.driver_facts import (
    DriverFacts,
    Loaded,
    VaultAccess,
    folder_of,
)
from rigops.concerns.nvidia_driver.resolver.host_facts import SECTION as HOST
from rigops.concerns.nvidia_driver.resolver.host_facts import (
    machine_of,
    with_archive,
)
from rigops.concerns.nvidia_driver.resolver.machine import Machine
from rigops.concerns.nvidia_driver.resolver.options import Choice, choose
from rigops.concerns.nvidia_driver.resolver.vault_sets import Pool, contents_of
from rigops.inventory.spec import RigSpec
from rigops.packages import sources
from rigops.probe.section import Section
from rigops.probe.sections import (
    nvidia_modinfo,
    nvidia_version,
    os_release,
    packages,
    pci,
    rigops_state,
    secure_boot,
    uname,
)
from rigops.vault.store import Store

if TYPE_CHECKING:
    from rigops.probe.bundle import Bundle
    from rigops.record.lockfile import LockedHost


Facts = TypeVar("Facts")

_OFFERS: Final = offers_section(headers=None)
_ALWAYS: Final[tuple[Section[Any], ...]] = (
    os_release.SECTION,
    uname.SECTION,
    pci.SECTION,
    nvidia_version.SECTION,
    nvidia_modinfo.SECTION,
    packages.SECTION,
    secure_boot.SECTION,
    rigops_state.SECTION,
    HOST,
)
# Without these nothing can be judged.
_ESSENTIAL: Final = (os_release.SECTION, pci.SECTION, packages.SECTION, HOST, _OFFERS)


def sections(spec: RigSpec | None) -> tuple[Section[Any], ...]:
    """The questions. A source that is declared in full is tried beside the host's own."""
    declared = spec.driver_source if spec else None
    beside = sources.deb822(declared.fields) if declared and declared.kind == "deb822" else ""
    return (*_ALWAYS, offers_section(beside, headers=None) if beside else _OFFERS)


def missing(bundle: Bundle) -> tuple[str, ...]:
    """Questions without a complete answer."""
    found = bundle.sections
    return tuple(
        one.name for one in _ESSENTIAL if one.name not in found or not found[one.name].is_complete
    )


def driver_facts(
    bundle: Bundle,
    catalog: Catalog,
    spec: RigSpec | None = None,
    locked: LockedHost | None = None,
    own_modules: str = "",
) -> DriverFacts:
    """`locked`: what the lockfile of its inventory has of this host.

    `own_modules`: the version of the declared tree of modules, if it was read.
    """
    spec = spec or RigSpec()
    system = _read(bundle, os_release.SECTION)
    offered = _read(bundle, _OFFERS)
    state = _read(bundle, rigops_state.SECTION)
    loaded = _read(bundle, nvidia_version.SECTION)
    machine = machine_of(
        catalog,
        system=system,
        running=_read(bundle, uname.SECTION),
        pci=_read(bundle, pci.SECTION),
        host=_read(bundle, HOST),
        packages=_read(bundle, packages.SECTION),
        modules=_read(bundle, nvidia_modinfo.SECTION),
        secure_boot=_read(bundle, secure_boot.SECTION),
    )
    has_apt = machine.manager == "apt"
    if has_apt:
        machine = with_archive(machine, offered, system)
    store = Store.from_declared(spec.rigops_vault)
    proven = locked.sets if locked and has_apt else ()
    # The host's vault takes long to read, so that its packages are taken to be there; of a set the
    # Packages file has to be on this machine.
    contents = contents_of(store, proven, Pool())
    sets = tuple(one for one in proven if one.index in contents.indexes)
    digests = frozenset(its.sha256 for one in sets for its in one.packages)
    return DriverFacts(
        machine=machine,
        catalog=catalog,
        spec=spec,
        loaded=Loaded(loaded.version, loaded.flavor) if loaded.version else None,
        pinned=record.pinned(state.records.get(record.PATH)),
        offered=offered,
        source=source_of(spec, machine),
        folder=folder_of(spec) if has_apt else None,
        vault=VaultAccess(sets=sets, locked=locked.driver.version if locked else "", store=store),
        contents=replace(contents, stored=digests),
        last_proven=next(iter(proven), None),
        own_modules=own_modules,
    )


def source_of(spec: RigSpec, machine: Machine) -> str | None:
    """The file of sources that the host's apt was asked with; None: another one is needed."""
    declared = spec.driver_source
    if declared and declared.kind == "deb822":
        return sources.deb822(declared.fields)
    if declared and declared.kind == "distribution":
        return None if machine.lacks_components else ""
    return None if declared and declared.kind == "snapshot" else ""


def _read(bundle: Bundle, section: Section[Facts]) -> Facts:
    collected = bundle.sections.get(section.name)
    return section.parse(collected.text if collected else "")


def choice(
    bundle: Bundle,
    catalog: Catalog,
    spec: RigSpec | None,
    locked: LockedHost | None,
    own_modules: str = "",
) -> Choice:
    today = datetime.now(timezone.utc).date()
    return choose(driver_facts(bundle, catalog, spec, locked, own_modules), today)


def chooser(
    bundle: Bundle, catalog: Catalog, spec: RigSpec | None, locked: LockedHost | None
) -> Callable[[], Choice | None]:
    """Nothing where the host did not answer all of it."""

    @cache
    def choose_driver() -> Choice | None:
        return None if missing(bundle) else choice(bundle, catalog, spec, locked)

    return choose_driver
