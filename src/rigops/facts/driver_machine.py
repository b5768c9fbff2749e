"""What a host says of itself as the machine that its driver is resolved for. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rigops.catalog.lookup import find_gpu
from rigops.driver import run_file, sources
from rigops.driver.machine import Card, Kernel, Machine
from rigops.driver.request import Refusal
from rigops.probe.package_names import RUN_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.catalog.loader import Catalog
    from rigops.catalog.model import Flavour
    from rigops.driver.machine import Manager
    from rigops.facts.driver_ground import Ground
    from rigops.facts.driver_offered import Offered
    from rigops.probe.sections.nvidia_modinfo import NvidiaModinfo
    from rigops.probe.sections.os_release import OsRelease
    from rigops.probe.sections.packages import Packages
    from rigops.probe.sections.pci import Pci
    from rigops.probe.sections.secure_boot import SecureBoot
    from rigops.probe.sections.uname import Uname


@dataclass(frozen=True, kw_only=True)
class Told:
    """All that decides over a driver but for what the package sources have."""

    system: OsRelease
    running: Uname
    pci: Pci
    ground: Ground
    packages: Packages
    modules: NvidiaModinfo
    secure_boot: SecureBoot


def machine_of(told: Told, catalog: Catalog) -> Machine:
    # Half installed is meant to be there: an interrupted change goes on with all of it.
    ground = told.ground
    found = (*told.packages.driver, *told.packages.unfinished_driver)
    installed = {one.name: one.version for one in found}
    own = ground.run_file if ground.run_file and ground.run_file.is_ours else None
    if own and own.whose == "whole":
        installed[RUN_FILE] = own.version
    keys = {"enrolled": True, "enrolling": False, "not enrolled": False}
    return Machine(
        distribution=told.system.id or "",
        release=told.system.version_id or "",
        manager=_manager(told.packages.managers),
        cards=tuple(_cards(told.pci, catalog)),
        kernels=tuple(_kernels(ground, told.running, told.modules)),
        installed=installed,
        flavour=_flavour(told.modules),
        secure_boot=told.secure_boot.insists,
        has_key=keys.get(ground.key) if ground.key else None,
        key=ground.certificate,
        is_enrolling=ground.key == "enrolling",
        architecture=told.running.machine,
        run_file=own or (None if installed else ground.run_file),
        rivals_of_run_file=tuple(
            one.name
            for one in told.packages.packages
            if one.is_there and run_file.is_in_its_way(one.name)
        ),
    )


def with_archive(machine: Machine, offered: Offered, system: OsRelease) -> Machine:
    """What a refusal can tell of the sources that would help."""
    lacking = sources.with_components(offered.sources, system)
    stanzas = sources.parse({sources.FILE: lacking or ""})
    active = [one for one in offered.sources if one.enabled and "deb" in one.types]
    own = next((one for one in active if "main" in one.components), None)
    return replace(
        machine,
        lacks_components=tuple(dict.fromkeys(name for one in stanzas for name in one.components)),
        suites=tuple(dict.fromkeys(suite for one in active for suite in one.suites)),
        archive=own.uris[0] if own and own.uris else "",
        keyring=dict(own.options).get("Signed-By", "") if own else "",
    )


def unusable(offered: Offered) -> Refusal | None:
    """Why nothing can be said of what the sources have."""
    if offered.trouble:
        return Refusal("the declared driver_source cannot be used", "; ".join(offered.trouble))
    if not offered.has_lists:
        return Refusal("apt has no package lists here", "sudo apt-get update")
    return None


def _manager(asked: frozenset[str]) -> Manager | None:
    named: dict[str, Manager] = {"dpkg": "apt", "pacman": "pacman", "rpm": "dnf"}
    return next((manager for one, manager in named.items() if one in asked), None)


def _cards(pci: Pci, catalog: Catalog) -> Iterator[Card]:
    for one in pci.nvidia_gpus:
        pci_id = f"{one.device:04x}"
        yield Card(one.address, pci_id, find_gpu(catalog, pci_id).only)


def _kernels(ground: Ground, running: Uname, modules: NvidiaModinfo) -> Iterator[Kernel]:
    """In a container the running kernel is that of the machine around it."""
    around = running.release if ground.is_container else None
    for one in ground.kernels:
        built = [
            module.version
            for module in modules.modules
            if module.version and (module.kernel or running.release) == one.release
        ]
        yield Kernel(one.release, one.has_headers, around=one.release == around, built=tuple(built))


def _flavour(modules: NvidiaModinfo) -> Flavour | None:
    for module in modules.modules:
        if module.is_open is not None:
            return "open" if module.is_open else "proprietary"
    return None
