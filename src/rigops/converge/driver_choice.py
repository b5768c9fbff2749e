"""Looking at a host for which drivers it could have: one question, and nothing is touched."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rigops.driver import run_file, sources
from rigops.driver.choice import Folder, Kept, Loaded, Proven, Seen
from rigops.driver.offers import Offers
from rigops.driver.request import Refusal
from rigops.facts.driver_ground import SECTION as GROUND
from rigops.facts.driver_machine import Told, machine_of, unusable, with_archive
from rigops.facts.driver_offers import offers_section
from rigops.facts.driver_vault_offers import joined, of_folder, offers
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
from rigops.record import driver as record
from rigops.vault.directory import Directory
from rigops.vault.store import Store

if TYPE_CHECKING:
    from rigops.catalog.loader import Catalog
    from rigops.driver.machine import Machine
    from rigops.probe.bundle import Bundle
    from rigops.probe.section import Section
    from rigops.record.lock import LockedHost
    from rigops.spec import RigSpec
    from rigops.spec.model import DriverSet

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
    GROUND,
)
# Without these nothing can be judged.
_ESSENTIAL: Final = (os_release.SECTION, pci.SECTION, packages.SECTION, GROUND, _OFFERS)


def sections(spec: RigSpec | None) -> tuple[Section[Any], ...]:
    """What is asked. A source that is declared in full is tried beside the host's own."""
    wanted = spec.driver_source if spec else None
    beside = sources.deb822(wanted.fields) if wanted and wanted.kind == "deb822" else ""
    return (*_ALWAYS, offers_section(beside, headers=None) if beside else _OFFERS)


def missing(bundle: Bundle) -> tuple[str, ...]:
    """What the host did not answer to its end."""
    found = bundle.sections
    return tuple(
        one.name for one in _ESSENTIAL if one.name not in found or not found[one.name].whole
    )


def seen(
    bundle: Bundle,
    catalog: Catalog,
    spec: RigSpec | None = None,
    locked: LockedHost | None = None,
) -> Seen:
    """`locked`: what the lock of its inventory has of this host."""
    system = _read(bundle, os_release.SECTION)
    offered = _read(bundle, _OFFERS)
    state = _read(bundle, rigops_state.SECTION)
    loaded = _read(bundle, nvidia_version.SECTION)
    told = Told(
        system=system,
        running=_read(bundle, uname.SECTION),
        pci=_read(bundle, pci.SECTION),
        ground=_read(bundle, GROUND),
        packages=_read(bundle, packages.SECTION),
        modules=_read(bundle, nvidia_modinfo.SECTION),
        secure_boot=_read(bundle, secure_boot.SECTION),
    )
    machine = machine_of(told, catalog)
    found = Seen(
        machine=machine,
        offers=offered.offers,
        loaded=Loaded(loaded.version, loaded.flavour) if loaded.version else None,
        pinned=record.pinned(state.records.get(record.PATH)),
    )
    if machine.manager != "apt":
        return found
    found = replace(
        found, machine=with_archive(machine, offered, system), unusable=unusable(offered)
    )
    return _with_more(found, spec, locked)


def _with_more(found: Seen, spec: RigSpec | None, locked: LockedHost | None) -> Seen:
    """With what this machine and the host have beside its sources."""
    flavor = (spec.driver_flavor if spec else None) or "auto"
    stays = run_file.kept(found.machine, flavor, spec.driver_set if spec else None)
    own = joined(found.offers, Offers(stays)) if stays else found.offers
    return replace(
        found,
        offers=own,
        kept=_kept(own, spec, locked) if spec and locked else None,
        folder=_folder(own, spec) if spec else None,
        locked=locked.version if locked else "",
        proven_set=_proven_set(found.machine, locked) if locked else None,
    )


def _kept(own: Offers, spec: RigSpec, locked: LockedHost) -> Kept | None:
    """What is only on the host is not looked at: reading it takes long."""
    store = Store.of(spec.rigops_vault)
    texts = [(one.version, store.text(one.index)) for one in locked.sets]
    sets = tuple(Proven(version, offers(text)) for version, text in texts if text is not None)
    every = (text for _, text in texts if text is not None)
    return Kept(sets, joined(own, offers(*every))) if sets else None


def _folder(own: Offers, spec: RigSpec) -> Folder | Refusal | None:
    wanted = spec.driver_source
    if wanted is None or wanted.kind != "dir":
        return None
    directory = Directory(wanted.directory)
    found = of_folder(own, directory)
    return found if isinstance(found, Refusal) else Folder(str(directory.folder), found)


def _proven_set(machine: Machine, locked: LockedHost) -> DriverSet | None:
    """A reinstalled machine gets the part of the driver that it had."""
    if machine.installed or not locked.sets:
        return None
    packages = {one.name: one.version for one in locked.sets[0].packages}
    return replace(machine, installed=packages).set_


def _read(bundle: Bundle, section: Section[Facts]) -> Facts:
    collected = bundle.sections.get(section.name)
    return section.parse(collected.text if collected else "")
