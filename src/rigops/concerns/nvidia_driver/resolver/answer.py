"""Which driver a host gets: the one answer of plan, apply, rollback and `rigops drivers --host`.

A function of `DriverFacts`. Where it depends on something that was not collected, the answer is
what: package sources and vaults take long to read, and mostly nothing has to be known of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, Literal

from packaging.specifiers import SpecifierSet

from rigops.catalog.loader import Catalog
from rigops.concerns.nvidia_driver.record import PinnedDriver
from rigops.concerns.nvidia_driver.resolver import fitness, request
from rigops.concerns.nvidia_driver.resolver.by_hand import unsigned
from rigops.concerns.nvidia_driver.resolver.driver_facts import DriverFacts, VaultAccess, set_of
from rigops.concerns.nvidia_driver.resolver.machine import Machine
from rigops.concerns.nvidia_driver.resolver.offers import Offers, Origin
from rigops.concerns.nvidia_driver.resolver.request import Blocker, Request, Resolution
from rigops.concerns.nvidia_driver.resolver.resolution import is_branch_fit
from rigops.concerns.nvidia_driver.resolver.resolve import resolve
from rigops.concerns.nvidia_driver.resolver.vault_sets import (
    AvailableSet,
    available,
    clash,
    is_installed,
    offers,
    tampered,
)
from rigops.dataclass import dataclass
from rigops.inventory.spec.model import DriverDeclaration
from rigops.packages.sources import uris
from rigops.probe.package_names import HEADERS, RUN_FILE, headers_of, is_driver
from rigops.probe.sections.packages import Packages
from rigops.vault.pinned_set import PinnedSet, index_text

_NVIDIA: Final = "nvidia"
# Sources that a file of rigops' own adds to those of the host.
_ADDED: Final = frozenset({"distribution", "snapshot"})


@dataclass(frozen=True)
class DriverAnswer:
    """`source`: the text of rigops' own file of sources, if any is needed."""

    resolution: Resolution
    source: str = ""
    is_settled: bool = False  # all of it was installed and recorded before
    from_vault: AvailableSet | None = None  # what it is installed from beside the sources
    declared: str = ""  # what it is the answer to; empty: to the declaration


@dataclass(frozen=True)
class NotCollected:
    """The inputs of the answer."""

    what: Literal["offers", "folder", "vault"]


def answer(facts: DriverFacts, driver: DriverDeclaration) -> DriverAnswer | Blocker | NotCollected:
    """An earlier resolution that is in place stays; only an upgrade asks the sources again."""
    if facts.vault and facts.vault.back:
        return _rolled_back(facts, facts.vault)
    asked = facts.request(driver)
    pinned = facts.pinned
    still = still_pinned(pinned, facts, asked) if pinned else None
    if isinstance(still, Blocker) and not asked.upgrade:
        return still
    if pinned is None or not isinstance(still, Resolution):
        return answer_to(facts, asked)
    settled = DriverAnswer(still, pinned.source, is_settled=True)
    newest = answer_to(facts, asked) if asked.upgrade else settled
    is_same = isinstance(newest, DriverAnswer) and newest.resolution.exact == still.exact
    return settled if is_same else newest


def answer_to(facts: DriverFacts, asked: Request) -> DriverAnswer | Blocker | NotCollected:
    """To another request than the declared one too, as if nothing were pinned."""
    if facts.machine.manager != "apt":
        return _answer(resolve(facts.machine, asked, Offers(), facts.catalog), "")
    if isinstance(facts.source, Blocker):
        return facts.source
    if facts.offered is None or (facts.source is None and asked.source in _ADDED):
        return NotCollected("offers")
    if asked.source == "dir":
        return _from_folder(facts, asked)
    source = facts.source or ""
    without = facts.offered.blocker or resolve_from(
        facts.machine, asked, facts.offers, facts.catalog, uris(source)
    )
    if facts.vault is None or asked.upgrade:
        return _answer(without, source)
    return _from_vault(facts, facts.vault, asked, without)


def still_pinned(
    pinned: PinnedDriver, facts: DriverFacts, asked: Request
) -> Resolution | Blocker | None:
    """None: nothing was resolved for this declaration yet, or not all of it is in place."""
    machine = facts.machine
    if (
        pinned.declared != request.identity(facts.spec)
        or (facts.own_modules and not _is_asked(pinned, asked))
        or not is_in_place(pinned, machine.installed, machine.tools)
        or (pinned.prebuilt and not set(machine.own_kernels).issubset(pinned.prebuilt))
    ):
        return None
    # A kernel may be there since for which it does not build: the sources say what does.
    if not pinned.prebuilt and fitness.too_new(
        facts.catalog, pinned.version, machine.kernels, pinned.flavor
    ):
        return None
    # Another card may be there since, another catalog, or Secure Boot.
    if machine.takes_signed_only and not pinned.prebuilt:
        return unsigned(machine, asked)
    _, blocker = fitness.flavors(facts.catalog, pinned.version, machine.cards)
    if blocker is None and not asked.allow_bad:
        blocker = fitness.bad(facts.catalog, pinned.version, machine.cards)
    return blocker or _as_pinned(pinned, machine)


def _is_asked(pinned: PinnedDriver, asked: Request) -> bool:
    return asked.takes(pinned.version) and asked.flavor == pinned.flavor


def is_in_place(
    pinned: PinnedDriver, installed: Mapping[str, str], tools: Mapping[str, str]
) -> bool:
    """Tools that the record does not name are pinned as they are, if of no newer branch."""
    return (
        pinned.packages.items() <= installed.items()
        and pinned.beside.items() <= tools.items()
        and all(
            name in pinned.beside or is_branch_fit(its, pinned.version)
            for name, its in tools.items()
        )
    )


def needed_beside(pinned: PinnedDriver, kernels: Iterable[str]) -> tuple[str, ...]:
    """Without the headers of kernels that were purged since; no kernel: none is known."""
    of_kernels = {headers_of(one) for one in kernels}
    return tuple(
        one
        for one in pinned.also
        if not of_kernels or one in of_kernels or not one.startswith(HEADERS)
    )


def not_installed(names: Iterable[str], packages: Packages) -> tuple[str, ...]:
    """Those that apply installs: an unpacked one is not installed yet."""
    there = {one.name for one in packages.packages if one.is_installed}
    return tuple(one for one in names if one != RUN_FILE and one not in there)


def resolve_from(
    machine: Machine,
    asked: Request,
    offers: Offers,
    catalog: Catalog,
    of_snapshot: Collection[str] = (),
) -> Resolution | Blocker:
    """With packages of the declared source only, where it names one."""
    own = of_source(offers, asked.source, machine, of_snapshot)
    found = resolve(machine, asked, own, catalog)
    if isinstance(found, Resolution) or own is offers:
        return found
    other = resolve(machine, asked, offers, catalog)
    if isinstance(other, Blocker):
        return found
    fix = f'declare "driver_source": "auto", since other sources here have {other.version}'
    return replace(
        found,
        fix=f"{fix}; or {found.fix}" if found.fix else fix,
        declare={"driver": asked.driver.text, "driver_source": "auto"},
    )


def of_source(
    offers: Offers, source: str, machine: Machine, of_snapshot: Collection[str] = ()
) -> Offers:
    """Other packages, such as a kernel's headers, may come from anywhere."""
    bare = {uri.rstrip("/") for uri in of_snapshot}
    distribution = machine.distribution.lower()

    def counts(origin: Origin) -> bool:
        maker = origin.maker.lower()
        if source == "vendor":
            return maker == _NVIDIA
        if source == "snapshot":
            return origin.uri.rstrip("/") in bare
        return maker in {distribution, f"{distribution} backports"}

    if source not in {"distribution", "vendor", "snapshot"}:
        return offers
    every = tuple(
        one for one in offers.every if not is_driver(one.name) or any(map(counts, one.origins))
    )
    return replace(offers, every=every)


def rollback_target(facts: DriverFacts, vault: VaultAccess) -> PinnedSet | None:
    """The last proven set that is not installed, unless a rollback has begun."""
    installed = facts.machine.installed
    return facts.rollback_target or next(
        (one for one in vault.sets if not is_installed(one, installed)), None
    )


def _rolled_back(facts: DriverFacts, vault: VaultAccess) -> DriverAnswer | Blocker | NotCollected:
    """The driver proven before the installed one, and none from any source."""
    machine, pinned, spec = facts.machine, facts.pinned, facts.spec
    target = rollback_target(facts, vault)
    if target is None:
        there = " and ".join(f"{one.version}, proven {one.at}" for one in vault.sets)
        return Blocker(
            "the vault has no driver that was proven here before the installed one",
            f"it has only {there}" if there else "nothing was proven yet: run rigops apply",
        )
    if facts.contents is None:
        return NotCollected("vault")
    found, lacking = available(facts.contents, vault.store, [target])
    if blocker := tampered(facts.contents.pool, [target]) or next(iter(lacking), None):
        return blocker
    driver = DriverDeclaration("version", target.version, SpecifierSet(f"=={target.version}"))
    asked = Request(
        driver=driver,
        flavor=target.flavor,
        set_=set_of(machine, target),
        allow_bad=bool(spec.driver_allow_bad),
        locked=target.version,
        source="vault",
    )
    resolution = resolve(machine, asked, offers(found[0].index), facts.catalog)
    if isinstance(resolution, Blocker):
        return resolution
    is_declared = spec.driver is not None and request.request(spec, spec.driver).takes(
        target.version
    )
    declared = request.identity(spec) if is_declared else f"rollback to {target.version}"
    source = pinned.source if pinned else ""
    if pinned and pinned.declared == declared and is_installed(target, machine.installed):
        return DriverAnswer(_as_pinned(pinned, machine), source, is_settled=True, declared=declared)
    return DriverAnswer(resolution, source, from_vault=found[0], declared=declared)


def _from_vault(
    facts: DriverFacts, vault: VaultAccess, asked: Request, without: Resolution | Blocker
) -> DriverAnswer | Blocker | NotCollected:
    """A proven driver comes before others. `without`: those of the sources alone."""
    machine, source = facts.machine, facts.source if isinstance(facts.source, str) else ""
    fitting = _preferred_sets(vault.sets, machine, asked, without)
    if not fitting:
        return _answer(without, source)
    if facts.contents is None:
        return NotCollected("vault")
    if wrong := tampered(facts.contents.pool, fitting):
        return wrong
    found, blockers = available(facts.contents, vault.store, fitting)
    if not found:
        why = blockers[0]
        if isinstance(without, Resolution):
            without = replace(without, notes=(*without.notes, str(why)))
        else:
            without = Blocker(f"{without.reason}; {why.reason}", without.fix or why.fix)
        return _answer(without, source)
    own = of_source(facts.offers, asked.source, machine, uris(source))
    every = own.and_also(offers(*(one.index for one in found)))
    resolution = resolve(machine, asked, every, facts.catalog)
    if isinstance(resolution, Blocker) or own.has(resolution.exact):
        return _answer(resolution, source)
    taken = next((one for one in found if one.version == resolution.version), None)
    return DriverAnswer(resolution, source, from_vault=taken) if taken else _answer(without, source)


def _from_folder(facts: DriverFacts, asked: Request) -> DriverAnswer | Blocker | NotCollected:
    folder = facts.folder
    if folder is None:
        return NotCollected("folder")
    if isinstance(folder, Blocker):
        return folder
    resolution = resolve(facts.machine, asked, folder.offers(facts.offers), facts.catalog)
    if isinstance(resolution, Blocker):
        return Blocker(f"of {folder.name}: {resolution.reason}", resolution.fix)
    if facts.contents is None:
        return NotCollected("vault")
    # The driver, and what else is in the folder of no other driver: neither the .run file beside
    # packages, nor the driver's packages beside that.
    is_run_file = resolution.is_run_file
    coming = [
        (one, record)
        for one, record in folder.records
        if resolution.packages.get(one.name, one.version) == one.version
        and (
            one.name in resolution.packages
            or not (one.name == RUN_FILE or (is_run_file and is_driver(one.name)))
        )
    ]
    packages = tuple(one for one, _ in coming)
    taken = AvailableSet(resolution.version, packages, index_text(coming), folder.origin)
    return clash(facts.contents.pool, taken.packages) or DriverAnswer(resolution, from_vault=taken)


def _preferred_sets(
    sets: Iterable[PinnedSet], machine: Machine, asked: Request, without: Resolution | Blocker
) -> list[PinnedSet]:
    """The sets that come before what the sources alone would bring."""
    fitting = [one for one in sets if asked.takes(one.version)]
    if not isinstance(without, Resolution):
        return fitting
    preferred = {machine.installed_version, asked.locked}
    if without.version in preferred:
        return []
    return [one for one in fitting if one.version in preferred]


def _as_pinned(pinned: PinnedDriver, machine: Machine) -> Resolution:
    return Resolution(
        version=pinned.version,
        flavor=pinned.flavor,
        packages=pinned.packages,
        asked=pinned.asked,
        sources=pinned.sources,
        also=needed_beside(pinned, [one.release for one in machine.kernels]),
        beside={} if RUN_FILE in pinned.packages else machine.tools,
        prebuilt=pinned.prebuilt,
        set_=machine.set_,
        why="it is installed",
    )


def _answer(found: Resolution | Blocker, source: str) -> DriverAnswer | Blocker:
    return found if isinstance(found, Blocker) else DriverAnswer(found, source)
