"""Which driver this host is to have: from what it says of itself and of its package sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.driver import declared, run_file, sources
from rigops.driver.absence import of_a_snapshot
from rigops.driver.offers import Offers
from rigops.driver.origins import of_source, resolve_from
from rigops.driver.request import Refusal, Resolution
from rigops.driver.resolve import resolve
from rigops.driver.standing import again, standing
from rigops.facts.apt_beside import with_index
from rigops.facts.apt_snapshot import AptSnapshot
from rigops.facts.driver_machine import unusable, with_archive
from rigops.facts.driver_offers import DriverOffers
from rigops.facts.driver_vault_offers import joined
from rigops.facts.sections import OsRelease, RigopsState
from rigops.operations import driver_vault as vault
from rigops.operations.consent import given
from rigops.operations.driver_record import recorded
from rigops.operations.driver_vault_choice import Kept, Taken, as_proven, earlier
from rigops.operations.take_steps import digest, ownership

if TYPE_CHECKING:
    from pyinfra.api.host import Host

    from rigops.catalog.loader import Catalog
    from rigops.driver.machine import Machine
    from rigops.driver.request import Request
    from rigops.facts.driver_offered import Offered
    from rigops.operations.driver_vault import Usable
    from rigops.operations.driver_vault_choice import Earlier
    from rigops.record.driver import PinnedDriver
    from rigops.spec import RigSpec
    from rigops.spec.model import DriverWish


@dataclass(frozen=True)
class Answer:
    """`source`: the text of rigops' own file of sources, if any is wanted."""

    resolution: Resolution
    source: str = ""
    is_settled: bool = False  # all of it was brought to an end before
    taken: Usable | None = None  # what comes from the vault
    declared: str = ""  # what it is the answer to; empty: to the declaration

    def beside(self, host: Host) -> str:
        """The source and the vault, as long as apt does not know them."""
        source = _beside(host, self.source)
        if self.taken is None or vault.is_source_there(host):
            return source
        return with_index(source, self.taken.index)


def answer(
    host: Host, spec: RigSpec, wish: DriverWish, seen: Machine, known: Catalog
) -> Answer | Refusal:
    """What was resolved before and is in place stays; the sources are not asked again."""
    pinned = recorded()
    consent = given(host)
    shelf = vault.shelf_of(host)
    if shelf and shelf.back:
        return _earlier(earlier(host, shelf, spec, seen, known), pinned, seen)
    locked = pinned.version if pinned else shelf.locked if shelf else ""
    request = declared.request(spec, wish, locked=locked, upgrade=consent.upgrade)
    request = as_proven(request, seen, shelf)
    settled = None if consent.upgrade else standing(pinned, spec, seen, request, known)
    if settled and pinned:
        return _settled(settled, pinned)
    if seen.manager != "apt":
        return _answered(resolve(seen, request, Offers(), known), "")
    return _sought(host, spec, seen, known, request)


def _sought(
    host: Host, spec: RigSpec, seen: Machine, known: Catalog, request: Request
) -> Answer | Refusal:
    """Among what the sources have, and what was proven before."""
    shelf = vault.shelf_of(host)
    source = _source(host, spec, seen)
    if isinstance(source, Refusal):
        return source
    offered = _offered(host, seen, _beside(host, source))
    ground = with_archive(seen, offered, host.get_fact(OsRelease))
    if shelf and (folder := _directory(spec)):
        kept = Kept(host, shelf, ground, known)
        return _answered(kept.of_directory(folder, request, offered.offers), "")
    uris = sources.uris(source)
    stays = run_file.kept(seen, request.flavor, request.set_)
    there = joined(offered.offers, Offers(stays)) if stays else offered.offers
    resolution = unusable(offered) or resolve_from(ground, request, there, known, uris)
    if shelf is None or request.upgrade:
        return _answered(resolution, source)
    kept = Kept(host, shelf, ground, known)
    own = of_source(there, request.source, ground, uris)
    return _answered(kept.instead_of(resolution, request, own), source)


def _settled(found: Resolution | Refusal, pinned: PinnedDriver) -> Answer | Refusal:
    if isinstance(found, Refusal):
        return found
    return Answer(found, pinned.source, is_settled=True)


def _answered(found: Resolution | Refusal | Taken, source: str) -> Answer | Refusal:
    if isinstance(found, Taken):
        return Answer(found.resolution, source, taken=found.taken)
    return found if isinstance(found, Refusal) else Answer(found, source)


def _earlier(
    found: Earlier | Refusal, pinned: PinnedDriver | None, seen: Machine
) -> Answer | Refusal:
    if isinstance(found, Refusal):
        return found
    source = pinned.source if pinned else ""
    if pinned and pinned.declared == found.declared and found.is_installed:
        return Answer(again(pinned, seen), source, is_settled=True, declared=found.declared)
    return Answer(found.resolution, source, taken=found.taken, declared=found.declared)


def _source(host: Host, spec: RigSpec, seen: Machine) -> str | Refusal:
    """The text of a file of sources that the declaration asks for."""
    wanted = spec.driver_source
    if wanted is None or wanted.kind in {"auto", "vendor"}:
        return ""
    if wanted.kind == "deb822":
        return sources.deb822(wanted.fields)
    if wanted.kind == "dir":
        text = "plain pyinfra cannot bring packages from this machine"
        return "" if vault.shelf_of(host) else Refusal(text, "use rigops apply")
    if wanted.kind == "distribution":
        offered = host.get_fact(DriverOffers)
        return sources.with_components(offered.sources, host.get_fact(OsRelease)) or ""
    return _snapshot(host, wanted.snapshot, seen)


def _snapshot(host: Host, day: str, seen: Machine) -> str | Refusal:
    """Of the suites that the host has of its distribution, from where its own apt has them."""
    offered, system = host.get_fact(DriverOffers), host.get_fact(OsRelease)
    asked = sources.for_snapshots(offered.sources, system)
    stanzas = tuple(sources.asking(one, day) for one in asked)
    found = host.get_fact(AptSnapshot, stanzas=stanzas) if stanzas else ()
    ground = with_archive(seen, offered, system)
    return sources.of_snapshot(asked, day, found) or of_a_snapshot(
        day, ground, system.codename or ""
    )


def _directory(spec: RigSpec) -> str:
    wanted = spec.driver_source
    return wanted.directory if wanted and wanted.kind == "dir" else ""


def _beside(host: Host, source: str) -> str:
    """Empty where the file of sources is already there with this text."""
    state = host.get_fact(RigopsState)
    there = state.present.get(sources.FILE)
    is_ours = sources.FILE in ownership(state).files
    return "" if is_ours and there and there.digest == digest(source.encode()) else source


def _offered(host: Host, seen: Machine, source: str) -> Offered:
    headers = tuple(sorted(one.release.lower() for one in seen.kernels if not one.has_headers))
    signed = seen.own_kernels if seen.takes_signed_only else ()
    found: Offered = host.get_fact(DriverOffers, source=source, headers=headers, signed=signed)
    return found
