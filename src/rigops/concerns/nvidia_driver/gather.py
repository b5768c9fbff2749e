"""Everything that decides over the driver of the host that a deploy runs for.

Sources and vaults take long to read, so that they are read only where the answer depends on them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rigops.concerns.nvidia_driver import record
from rigops.concerns.nvidia_driver.facts import DriverOffers, VaultPool
from rigops.concerns.nvidia_driver.resolver.answer import NotCollected, answer, rollback_target
from rigops.concerns.nvidia_driver.resolver.driver_facts import (
    DriverFacts,
    VaultAccess,
    folder_of,
)
from rigops.concerns.nvidia_driver.resolver.host_facts import with_archive
from rigops.concerns.nvidia_driver.resolver.not_offered import no_snapshot
from rigops.concerns.nvidia_driver.resolver.request import Refusal
from rigops.concerns.nvidia_driver.resolver.vault_sets import VaultContents, contents_of
from rigops.facts.sections import OsRelease, RigopsState
from rigops.ownership import Ownership
from rigops.ownership.files import digest
from rigops.packages import sources
from rigops.packages.facts import AptSnapshot
from rigops.plan.context import consent_of, provide, provided
from rigops.vault.pinned_set import PinnedSet

if TYPE_CHECKING:
    from pyinfra.api.host import Host

    from rigops.catalog.loader import Catalog
    from rigops.concerns.nvidia_driver.apt_offers import Offered
    from rigops.concerns.nvidia_driver.record import PinnedDriver
    from rigops.concerns.nvidia_driver.resolver.answer import Answer
    from rigops.concerns.nvidia_driver.resolver.machine import Machine
    from rigops.inventory.spec import RigSpec
    from rigops.inventory.spec.model import DriverWish


def vault_access(host: Host) -> VaultAccess | None:
    return provided(host, VaultAccess)


def recorded(host: Host) -> PinnedDriver | None:
    return record.pinned(host.get_fact(RigopsState).records.get(record.PATH))


def driver_answer(
    host: Host, spec: RigSpec, wish: DriverWish, machine: Machine, catalog: Catalog
) -> Answer | Refusal:
    vault = vault_access(host)
    facts = DriverFacts(
        machine=machine,
        catalog=catalog,
        spec=spec,
        pinned=recorded(host),
        vault=vault,
        last_proven=next(iter(vault.sets), None) if vault else None,
        rollback_target=provided(host, PinnedSet),
        upgrade=consent_of(host).upgrade,
    )
    found = answer(facts, wish)
    while isinstance(found, NotCollected):
        facts = _with_more(host, facts, found)
        found = answer(facts, wish)
    # A plan must not fix the target: it may be made with facts that nobody has read yet.
    if vault and vault.back and host.state.is_executing and (it := rollback_target(facts, vault)):
        provide(host, it)
    return found


def with_added_sources(host: Host, source: str) -> str:
    """The source as long as apt does not know it: empty where its file has this text already."""
    state = host.get_fact(RigopsState)
    there = state.present.get(sources.FILE)
    is_ours = sources.FILE in Ownership.of(state).files
    return "" if is_ours and there and there.digest == digest(source.encode()) else source


def _with_more(host: Host, facts: DriverFacts, lacking: NotCollected) -> DriverFacts:
    if lacking.what == "folder":
        return replace(facts, folder=folder_of(facts.spec))
    if lacking.what == "vault":
        pool = host.get_fact(VaultPool)
        vault = facts.vault
        contents = contents_of(vault.store, vault.sets, pool) if vault else VaultContents(pool=pool)
        return replace(facts, contents=contents)
    source = _source(host, facts.spec, facts.machine)
    if isinstance(source, Refusal):
        return replace(facts, source=source)
    offered = _offered(host, facts.machine, with_added_sources(host, source))
    machine = with_archive(facts.machine, offered, host.get_fact(OsRelease))
    return replace(facts, source=source, offered=offered, machine=machine)


def _source(host: Host, spec: RigSpec, machine: Machine) -> str | Refusal:
    """The text of a file of sources that the declaration asks for."""
    declared = spec.driver_source
    if declared is None or declared.kind in {"auto", "vendor"}:
        return ""
    if declared.kind == "dir":
        text = "plain pyinfra cannot bring packages from this machine"
        return "" if vault_access(host) else Refusal(text, "use rigops apply")
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


def _offered(host: Host, machine: Machine, source: str) -> Offered:
    headers = tuple(sorted(one.release.lower() for one in machine.kernels if not one.has_headers))
    signed = machine.own_kernels if machine.takes_signed_only else ()
    found: Offered = host.get_fact(DriverOffers, source=source, headers=headers, signed=signed)
    return found
