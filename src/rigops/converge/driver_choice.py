"""Looking at a host for which drivers it could have: one question, and nothing is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from rigops.driver import sources
from rigops.driver.choice import Loaded, Seen
from rigops.facts.driver_ground import SECTION as GROUND
from rigops.facts.driver_machine import Told, machine_of, unusable, with_archive
from rigops.facts.driver_offers import offers_section
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

if TYPE_CHECKING:
    from rigops.catalog.loader import Catalog
    from rigops.probe.bundle import Bundle
    from rigops.probe.section import Section
    from rigops.spec import RigSpec

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


def seen(bundle: Bundle, catalog: Catalog) -> Seen:
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
    is_apt = machine.manager == "apt"
    return Seen(
        machine=with_archive(machine, offered, system) if is_apt else machine,
        offers=offered.offers,
        loaded=Loaded(loaded.version, loaded.flavour) if loaded.version else None,
        pinned=record.pinned(state.records.get(record.PATH)),
        unusable=unusable(offered) if is_apt else None,
    )


def _read(bundle: Bundle, section: Section[Facts]) -> Facts:
    collected = bundle.sections.get(section.name)
    return section.parse(collected.text if collected else "")
