"""Which drivers a machine could have, which one is recommended, and what the declared one is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from functools import cached_property, reduce
from typing import Final

from packaging.specifiers import SpecifierSet

from rigops.catalog import lookup, versions
from rigops.catalog.lookup import find_branch, judge
from rigops.catalog.model import DriverBranch, ModuleFlavor, RowStatus
from rigops.concerns.nvidia_driver.resolver import fitness
from rigops.concerns.nvidia_driver.resolver.answer import (
    DriverAnswer,
    NotCollected,
    answer,
    answer_to,
)
from rigops.concerns.nvidia_driver.resolver.candidates import candidates
from rigops.concerns.nvidia_driver.resolver.driver_facts import DriverFacts, Folder
from rigops.concerns.nvidia_driver.resolver.machine import Machine
from rigops.concerns.nvidia_driver.resolver.offers import Offers
from rigops.concerns.nvidia_driver.resolver.request import Blocker, Request, Resolution
from rigops.concerns.nvidia_driver.resolver.resolve import resolve
from rigops.concerns.nvidia_driver.resolver.vault_sets import available, offers
from rigops.dataclass import dataclass
from rigops.inventory.spec.model import DriverDeclaration, DriverSet
from rigops.numbers import whole
from rigops.probe.package_names import RUN_FILE

_SETS: Final[tuple[DriverSet, ...]] = ("compute", "desktop")
_STATUS: Final[Mapping[int, RowStatus]] = {0: "known-good", 1: "unknown", 2: "caution", 3: "bad"}
_GOOD, _BAD = 0, 3
_ANY: Final = DriverDeclaration("range", "of any version", SpecifierSet())


@dataclass(frozen=True, kw_only=True)
class Option:
    """A driver that can be installed. `places`: none where it is only installed."""

    version: str
    flavor: ModuleFlavor
    sets: tuple[DriverSet, ...]  # that it is whole for; none: it does not fit
    places: tuple[str, ...]
    status: RowStatus
    why: str

    @property
    def branch(self) -> str:
        return versions.branch_of(self.version)

    @property
    def fits(self) -> bool:
        return bool(self.sets)


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """`declare`: the keys of the inventory that bring it."""

    version: str
    flavor: ModuleFlavor
    declare: Mapping[str, str]
    why: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DeclaredDriver:
    """The result of the inventory's `driver`: a version, or the blocker."""

    driver: str
    version: str | None = None
    flavor: ModuleFlavor | None = None
    why: str = ""
    blocker: Blocker | None = None


@dataclass(frozen=True, kw_only=True)
class Choice:
    """`blocker`: what blocks the recommended one, or why there is none."""

    facts: DriverFacts
    options: tuple[Option, ...]  # newest first
    installed: RowStatus | None  # by the catalog
    loaded: RowStatus | None
    recommended: Recommendation | None = None
    blocker: Blocker | None = None
    declared: DeclaredDriver | None = None

    @property
    def declare(self) -> Mapping[str, object]:
        """The keys of the inventory that bring the recommended driver; none where apply refuses."""
        if self.blocker:
            return self.blocker.declare
        return self.recommended.declare if self.recommended else {}


def choose(facts: DriverFacts, today: date) -> Choice:
    """For facts with all that one collection brings: nothing more is asked for."""
    return _Options(facts, today).choice()


class _Options:
    def __init__(self, facts: DriverFacts, today: date) -> None:
        self._facts = facts
        self._machine = facts.machine
        self._catalog = facts.catalog
        self._today = today
        # Without what blocks every driver alike.
        own = facts.machine.run_file
        self._clear = replace(
            facts.machine, run_file=own if own and own.is_ours else None, secure_boot=False
        )
        self._gpus = fitness.known_gpus(facts.machine.cards)

    def choice(self) -> Choice:
        recommended, blocker = self._recommended()
        loaded, installed = self._facts.loaded, self._machine.installed_version
        return Choice(
            facts=self._facts,
            options=self._options,
            installed=self._status(installed) if installed else None,
            loaded=self._status(loaded.version) if loaded else None,
            recommended=recommended,
            blocker=blocker,
            declared=self._declared(),
        )

    @cached_property
    def _options(self) -> tuple[Option, ...]:
        places: dict[tuple[str, ModuleFlavor], dict[str, None]] = {}
        folder = [self._of_folder] if self._of_folder else []
        # A driver in several places is listed with all of them.
        for there in (self._facts.offers, *self._of_sets, *folder):
            for one in candidates(there):
                its = places.setdefault((one.version, one.flavor), {})
                its.update(dict.fromkeys(one.kernel.places))
        newest = sorted(places, key=lambda one: (versions.parse(one[0]), one[1]), reverse=True)
        return tuple(self._option(*one, tuple(places[one])) for one in newest)

    @cached_property
    def _of_sets(self) -> tuple[Offers, ...]:
        """Of each pinned set that is available."""
        vault, contents = self._facts.vault, self._facts.contents
        if vault is None or contents is None:
            return ()
        found, _ = available(contents, vault.store, vault.sets)
        return tuple(offers(one.index) for one in found)

    @cached_property
    def _of_folder(self) -> Offers | None:
        folder = self._facts.folder
        return folder.offers(self._facts.offers) if isinstance(folder, Folder) else None

    @cached_property
    def _every(self) -> Offers:
        return reduce(Offers.and_also, self._of_sets, self._facts.offers)

    def _option(self, version: str, flavor: ModuleFlavor, places: tuple[str, ...]) -> Option:
        status = self._status(version, flavor)
        # Neither set is tried of what no package could make fit.
        tried = _SETS[:1] if status in {"unsupported", "bad"} else _SETS
        found = {
            set_: self._resolve(
                Request(driver=_declaration(version), flavor=flavor, set_=set_, upgrade=True)
            )
            for set_ in tried
        }
        blockers = [one for one in found.values() if isinstance(one, Blocker)]
        sets = tuple(one for one in tried if isinstance(found[one], Resolution))
        return Option(
            version=version,
            flavor=flavor,
            sets=sets,
            places=places,
            status=status,
            why=self._known_of(version) if sets else blockers[0].reason,
        )

    def _resolve(self, request: Request) -> Resolution | Blocker:
        """Of the declared folder or without it, never with packages of both."""
        without = resolve(self._clear, request, self._every, self._catalog)
        folder = self._of_folder
        if isinstance(without, Resolution) or folder is None:
            return without
        there = any(one.version == request.driver.text for one in candidates(folder))
        found = resolve(self._clear, request, folder, self._catalog)
        return found if there else without

    def _status(self, version: str, flavor: ModuleFlavor | None = None) -> RowStatus:
        supported, blocker = fitness.flavors(self._catalog, version, self._machine.cards)
        if blocker or (flavor and flavor not in supported):
            return "unsupported"
        return _STATUS[self._rank(version)]

    def _rank(self, version: str) -> int:
        return fitness.rank(self._catalog, version, self._machine.cards)

    def _recommended(self) -> tuple[Recommendation | None, Blocker | None]:
        if not self._machine.cards:
            return None, Blocker("no NVIDIA card found: no driver to recommend")
        unknown = [f"10de:{card.pci_id}" for card in self._machine.cards if card.gpu is None]
        if unknown:
            return None, Blocker(lookup.NOT_KNOWN.format(", ".join(dict.fromkeys(unknown))))
        fit = [one for one in self._options if one.fits]
        if not fit:
            return None, self._nothing_fits()
        installed = [one for one in fit if one.version == self._machine.installed_version]
        stays = [one for one in installed if self._rank(one.version) == _GOOD]
        # The newest of those that the catalog judges best: they come newest first.
        version = min(stays or fit, key=lambda one: self._rank(one.version)).version
        flavors = [one.flavor for one in stays or fit]
        for declare, request in self._declarations(version, flavors):
            found = self._answer(self._clear, request)
            if isinstance(found, Resolution) and found.version == version:
                real = self._answer(self._machine, request)
                if isinstance(real, Resolution):
                    return self._recommendation(real, declare, stays=bool(stays)), None
                return self._recommendation(found, declare, stays=bool(stays)), real
        return None, self._nothing_fits()

    def _answer(self, machine: Machine, request: Request) -> Resolution | Blocker | None:
        """The driver that apply would install for another declaration with a certain source."""
        offered = self._facts.offered
        usable = replace(offered, trouble=(), has_lists=True) if offered else None
        found = answer_to(replace(self._facts, machine=machine, offered=usable, source=""), request)
        if isinstance(found, NotCollected):
            return None
        return found.resolution if isinstance(found, DriverAnswer) else found

    def _declarations(
        self, version: str, flavors: list[ModuleFlavor]
    ) -> Iterator[tuple[dict[str, str], Request]]:
        """Declarations that bring it, the plainest first; the declared folder stays if it can."""
        plain = Request(
            driver=_declaration(version), set_=self._facts.set_, locked=self._facts.locked
        )
        sources: list[tuple[str, dict[str, str]]] = [("auto", {})]
        if self._facts.folder:
            sources = [("dir", {}), ("auto", {"driver_source": "auto"})]
        for source, also in sources:
            request = replace(plain, source=source)
            for text in (versions.branch_of(version), version):
                yield {"driver": text, **also}, replace(request, driver=_declaration(text))
            for one in dict.fromkeys(flavors):
                declare = {"driver": version, "driver_flavor": one, **also}
                yield declare, replace(request, flavor=one)

    def _recommendation(
        self, found: Resolution, declare: Mapping[str, str], *, stays: bool
    ) -> Recommendation:
        known = set(fitness.cautions(self._catalog, found.version, self._machine.cards))
        return Recommendation(
            version=found.version,
            flavor=found.flavor,
            declare=declare,
            why=self._reason(found.version, stays=stays),
            notes=tuple(one for one in found.notes if one not in known),
        )

    def _reason(self, version: str, *, stays: bool) -> str:
        rank = self._rank(version)
        if stays:
            why = f"{version} is installed and known to be good{self._for_these}"
        elif rank == _GOOD:
            why = f"{version} is the newest on offer that is known to be good{self._for_these}"
        else:
            why = (
                "no driver on offer is known to be good here; this one has the fewest doubts: "
                f"{self._known_of(version)}"
            )
        loaded = self._facts.loaded.version if self._facts.loaded else ""
        there = {self._machine.installed_version: "installed", loaded: "loaded"}
        bad = (
            f"; {one}, which is {how}, is known to be bad"
            for one, how in there.items()
            if one and one != version and self._rank(one) == _BAD
        )
        return f"{why}{next(bad, '')}{self._older_than_need_be(version)}"

    def _older_than_need_be(self, version: str) -> str:
        """The caution about a good one without fixes, where a maintained one drives the cards."""
        branch = find_branch(self._catalog, versions.branch_of(version))
        if branch is None or not lookup.has_ended(branch, self._today):
            return ""
        since = "" if branch.end_of_life == lookup.ENDED else f" since {branch.end_of_life}"
        text = f"; {branch.branch} has had no fixes{since}"
        best = lookup.recommended(self._catalog, self._gpus)
        if (
            best is None
            or int(best.branch) <= int(branch.branch)
            or lookup.has_ended(best, self._today)
        ):
            return text
        until = f" until {best.end_of_life}" if best.end_of_life else ""
        return f"{text}; plan for {best.branch}, which gets fixes{until}"

    def _known_of(self, version: str) -> str:
        """Of one that fits: what is known of it."""
        branch = find_branch(self._catalog, versions.branch_of(version))
        caution = next(
            (
                verdict.why
                for gpu in self._gpus or (None,)
                for verdict in judge(self._catalog, version, gpu)
                if verdict.status == "caution"
            ),
            "",
        )
        if self._rank(version) == _GOOD:
            return f"known to be good{self._for_these}{self._fixes(branch)}"
        if caution:
            return caution.rstrip(".")
        return f"no report on it, good or bad{self._fixes(branch)}"

    def _fixes(self, branch: DriverBranch | None) -> str:
        if branch is None or not branch.end_of_life:
            return ""
        if lookup.has_ended(branch, self._today):
            return "; gets no more fixes"
        return f"; gets fixes until {branch.end_of_life}"

    @property
    def _for_these(self) -> str:
        return f" for {' and '.join(one.name for one in self._gpus)}" if self._gpus else ""

    def _nothing_fits(self) -> Blocker:
        """The fix: a source, where a good driver for these cards is known to be in one."""
        unusable = self._facts.offered.blocker if self._facts.offered else None
        if unusable and all(one.name == RUN_FILE for one in self._facts.offers.every):
            return unusable
        source = self._facts.spec.driver_source
        kind = source.kind if source else "auto"
        # The most helpful blocker comes first.
        good = [one.branch for one in lookup.good_branches(self._catalog, self._gpus)]
        best = lookup.recommended(self._catalog, self._gpus)
        branches = [_declaration(one) for one in ([best.branch] if best else []) + good[::-1]]
        could = any(one.status not in {"unsupported", "bad"} for one in self._options)
        requests = (
            Request(driver=driver, set_=self._facts.set_, source=kind)
            for driver in ([_ANY, *branches] if could else [*branches, _ANY])
        )
        found = [resolve(self._machine, one, self._every, self._catalog) for one in requests]
        blockers = [one for one in found if isinstance(one, Blocker)]
        naming = [one for one in blockers if '"driver_source": ' in one.fix]
        none = Blocker("none of the drivers on offer fits this machine")
        return next(iter((*naming, *blockers)), none)

    def _declared(self) -> DeclaredDriver | None:
        spec = self._facts.spec
        if spec.driver is None:
            return None
        found = answer(self._facts, spec.driver)
        declared = spec.driver.text
        if isinstance(found, Blocker):
            return DeclaredDriver(driver=declared, blocker=found)
        if isinstance(found, NotCollected):
            kind = spec.driver_source.kind if spec.driver_source else "auto"
            return DeclaredDriver(
                driver=declared, why=f'rigops plan shows what "driver_source": "{kind}" brings'
            )
        its = found.resolution
        return DeclaredDriver(driver=declared, version=its.version, flavor=its.flavor, why=its.why)


def _declaration(text: str) -> DriverDeclaration:
    if (branch := whole(text)) is not None:
        return DriverDeclaration("branch", text, SpecifierSet(f">={branch},<{branch + 1}"))
    return DriverDeclaration("version", text, SpecifierSet(f"=={text}"))
