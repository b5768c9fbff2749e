"""Facts of a host for its driver's deploy, and all that decides on it.

Sources and vaults take long to read, so that they are read only where the answer depends on them.
"""

from __future__ import annotations

from dataclasses import replace

from pyinfra.api.command import StringCommand
from pyinfra.api.facts import FactBase
from pyinfra.api.host import Host

from rigops.catalog.loader import Catalog
from rigops.concerns.nvidia_driver import record
from rigops.concerns.nvidia_driver.apt_offers import Offered, offers_section
from rigops.concerns.nvidia_driver.record import PinnedDriver
from rigops.concerns.nvidia_driver.resolver import host_facts, vault_sets
from rigops.concerns.nvidia_driver.resolver.answer import (
    DriverAnswer,
    NotCollected,
    answer,
    rollback_target,
)
from rigops.concerns.nvidia_driver.resolver.driver_facts import (
    DriverFacts,
    VaultAccess,
    folder_of,
)
from rigops.concerns.nvidia_driver.resolver.host_facts import machine_of, with_archive
from rigops.concerns.nvidia_driver.resolver.machine import Machine
from rigops.concerns.nvidia_driver.resolver.not_offered import no_snapshot
from rigops.concerns.nvidia_driver.resolver.request import Blocker
from rigops.concerns.nvidia_driver.resolver.vault_sets import VaultContents, contents_of
from rigops.facts.sections import (
    GpuPackages,
    OsRelease,
    Pci,
    RigopsState,
    SectionFact,
    Uname,
    section_command,
    section_value,
)
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.model import DriverDeclaration
from rigops.ownership.ownership import Ownership, digest
from rigops.packages import sources
from rigops.packages.facts import AptSnapshot
from rigops.plan.context import consent_of, provide, provided
from rigops.probe.sections import nvidia_modinfo, secure_boot
from rigops.vault.pinned_set import PinnedSet


class DriverHost(SectionFact[host_facts.DriverHostFacts]):
    section = host_facts.SECTION


class DriverModules(SectionFact[nvidia_modinfo.NvidiaModinfo]):
    section = nvidia_modinfo.SECTION


class SecureBoot(SectionFact[secure_boot.SecureBoot]):
    section = secure_boot.SECTION


class VaultPool(SectionFact[vault_sets.Pool]):
    section = vault_sets.SECTION


class DriverOffers(FactBase[Offered]):
    """Every version of every package of the driver, and what these kernels need with it."""

    def command(  # type: ignore[mutable-override]  # as all of pyinfra's do
        self, *, source: str = "", headers: tuple[str, ...] = (), signed: tuple[str, ...] = ()
    ) -> StringCommand:
        return section_command(offers_section(source, headers, signed))

    def process(self, output: list[str]) -> Offered:
        return section_value(offers_section(), output)

    @staticmethod
    def default() -> Offered:
        return Offered()


def machine(host: Host, catalog: Catalog) -> Machine:
    return machine_of(
        catalog,
        system=host.get_fact(OsRelease),
        running=host.get_fact(Uname),
        pci=host.get_fact(Pci),
        host=host.get_fact(DriverHost),
        packages=host.get_fact(GpuPackages),
        modules=host.get_fact(DriverModules),
        secure_boot=host.get_fact(SecureBoot),
    )


def recorded(host: Host) -> PinnedDriver | None:
    return record.pinned(host.get_fact(RigopsState).records.get(record.PATH))


def driver_answer(
    host: Host,
    spec: RigSpec,
    driver: DriverDeclaration,
    machine: Machine,
    catalog: Catalog,
    *,
    own_modules: str = "",
) -> DriverAnswer | Blocker:
    vault = provided(host, VaultAccess)
    facts = DriverFacts(
        machine=machine,
        catalog=catalog,
        spec=spec,
        pinned=recorded(host),
        vault=vault,
        last_proven=next(iter(vault.sets), None) if vault else None,
        rollback_target=provided(host, PinnedSet),
        upgrade=consent_of(host).upgrade,
        own_modules=own_modules,
    )
    found = answer(facts, driver)
    while isinstance(found, NotCollected):
        facts = _with_more(host, facts, found)
        found = answer(facts, driver)
    # A plan must not fix the target: some of its facts may be guessed.
    if vault and vault.back and host.state.is_executing and (it := rollback_target(facts, vault)):
        provide(host, it)
    return found


def has_owned(host: Host, path: str, text: str) -> bool:
    """Whether rigops wrote the file there, and it has this text."""
    state = host.get_fact(RigopsState)
    there = state.present.get(path)
    is_owned = path in Ownership.from_state(state).files
    return bool(is_owned and there and there.digest == digest(text.encode()))


def with_added_sources(host: Host, source: str) -> str:
    """The source as long as apt does not know it."""
    return "" if has_owned(host, sources.FILE, source) else source


def _with_more(host: Host, facts: DriverFacts, lacking: NotCollected) -> DriverFacts:
    if lacking.what == "folder":
        return replace(facts, folder=folder_of(facts.spec))
    if lacking.what == "vault":
        pool = host.get_fact(VaultPool)
        vault = facts.vault
        contents = contents_of(vault.store, vault.sets, pool) if vault else VaultContents(pool=pool)
        return replace(facts, contents=contents)
    source = _source(host, facts.spec, facts.machine)
    if isinstance(source, Blocker):
        return replace(facts, source=source)
    machine = facts.machine
    offered: Offered = host.get_fact(
        DriverOffers,
        source=with_added_sources(host, source),
        headers=tuple(
            sorted(one.release.lower() for one in machine.kernels if not one.has_headers)
        ),
        signed=machine.own_kernels if machine.takes_signed_only else (),
    )
    machine = with_archive(machine, offered, host.get_fact(OsRelease))
    return replace(facts, source=source, offered=offered, machine=machine)


def _source(host: Host, spec: RigSpec, machine: Machine) -> str | Blocker:
    """The text of a file of sources that the declaration asks for."""
    declared = spec.driver_source
    if declared is None or declared.kind in {"auto", "vendor"}:
        return ""
    if declared.kind == "dir":
        text = "plain pyinfra cannot bring packages from this machine"
        return "" if provided(host, VaultAccess) else Blocker(text, "use rigops apply")
    if declared.kind == "deb822":
        return sources.deb822(declared.fields)
    offered, system = host.get_fact(DriverOffers), host.get_fact(OsRelease)
    if declared.kind == "distribution":
        return sources.with_components(offered.sources, system) or ""
    # Of the suites that the host has of its distribution, from where its own apt has snapshots.
    day = declared.snapshot
    asked = sources.for_snapshots(offered.sources, system)
    stanzas = tuple(sources.asking(one, day) for one in asked)
    found = host.get_fact(AptSnapshot, stanzas=stanzas) if stanzas else ()
    known = with_archive(machine, offered, system)
    return sources.of_snapshot(asked, day, found) or no_snapshot(day, known, system.codename or "")
