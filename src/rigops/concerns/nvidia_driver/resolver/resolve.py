"""The driver that a machine gets for what was declared, or why it gets none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from rigops.catalog import versions
from rigops.catalog.loader import Catalog
from rigops.catalog.lookup import find_branch
from rigops.catalog.model import ModuleFlavor
from rigops.concerns.nvidia_driver.resolver import fitness
from rigops.concerns.nvidia_driver.resolver.by_hand import by_hand, foreign, unsigned
from rigops.concerns.nvidia_driver.resolver.candidates import (
    Candidate,
    candidates,
    prebuilt_candidates,
)
from rigops.concerns.nvidia_driver.resolver.fitness import TooNew
from rigops.concerns.nvidia_driver.resolver.machine import Machine
from rigops.concerns.nvidia_driver.resolver.not_offered import not_offered
from rigops.concerns.nvidia_driver.resolver.offers import Offers
from rigops.concerns.nvidia_driver.resolver.request import Blocker, Request, Resolution
from rigops.concerns.nvidia_driver.resolver.resolution import Found, Question, resolution
from rigops.probe.package_names import RUN_FILE, RUN_FILE_ARCHITECTURE


def resolve(
    machine: Machine, request: Request, offers: Offers, catalog: Catalog
) -> Resolution | Blocker:
    """The sources matter only for versions that are fit at all."""
    if blocker := _hopeless(machine, request, offers, catalog):
        return blocker
    if machine.manager != "apt":
        return by_hand(machine, request, catalog)
    if machine.takes_signed_only:
        return _signed(machine, request, offers, catalog)
    asked = Question(machine, request, offers, catalog)
    return _Resolver(asked, candidates(offers)).answer()


def _hopeless(
    machine: Machine, request: Request, offers: Offers, catalog: Catalog
) -> Blocker | None:
    """Blockers that no source can change."""
    if machine.run_file and not machine.run_file.is_ours:
        return foreign(machine.run_file)
    if machine.takes_signed_only and machine.manager != "apt":
        return unsigned(machine, request)
    known = fitness.releases(catalog, request)
    is_there = any(one.version == request.driver.text for one in candidates(offers))
    if request.driver.kind == "version" and not known and not is_there:
        return _never_released(request.driver.text, catalog)
    blockers = []
    for version in known or fitness.unlisted(catalog, request):
        blocker = fitness.unfit(catalog, version, machine.cards, request)
        if blocker is None:
            return None
        blockers.append(blocker)
    return blockers[-1] if blockers else None


def _signed(
    machine: Machine, request: Request, offers: Offers, catalog: Catalog
) -> Resolution | Blocker:
    """With the modules that the distribution signed, as far as its sources have them."""
    every = prebuilt_candidates(offers, machine.own_kernels)
    resolver = _Resolver(Question(machine, request, offers, catalog), every)
    found = resolver.answer()
    if isinstance(found, Resolution):
        return found
    return unsigned(machine, request, resolver.usable())


def _never_released(version: str, catalog: Catalog) -> Blocker | None:
    """Of a branch whose releases the catalog has; a newer one than those may well exist."""
    branch = find_branch(catalog, versions.branch_of(version))
    if branch is None or not branch.releases:
        return None
    every = [one.version for one in branch.releases]
    if versions.parse(version) > max(map(versions.parse, every)):
        return None
    near = versions.nearest(version, every)
    return Blocker(
        f"no NVIDIA release {version} is known",
        f'declare "driver": {" or ".join(map(_quoted, near))}, the nearest releases',
    )


class _Resolver:
    def __init__(self, asked: Question, every: tuple[Candidate, ...]) -> None:
        self._asked = asked
        self._machine = asked.machine
        self._request = asked.request
        self._catalog = asked.catalog
        runs_here = asked.machine.architecture in {None, RUN_FILE_ARCHITECTURE}
        self._every = tuple(
            one for one in every if one.names(asked.set_) and (runs_here or not one.is_run_file)
        )

    def answer(self) -> Resolution | Blocker:
        matching = sorted(
            (one for one in self._every if self._request.takes(one.version)),
            key=lambda one: versions.parse(one.version),
        )
        blockers = {one.version: self._unfit(one.version) for one in matching}
        fit = [one for one in matching if blockers[one.version] is None]
        found = [Found(one, self._asked.closure(one)) for one in fit]
        whole = [one for one in found if one.closure.is_complete]
        possible = [one for one in whole if one.candidate.flavor in self._flavors(one.candidate)]
        wanted = list(self._of_usual_flavors(possible))
        built = [one for one in wanted if not self._too_new(one.candidate)]
        if built:
            return resolution(self._asked, self._choose(built))
        if wanted:
            chosen = self._choose(wanted).candidate
            if newer := self._too_new(chosen):
                return self._for_newer_kernels(chosen, newer, possible)
        if whole:
            return self._of_another_flavor(whole[-1].candidate)
        if blocker := next(filter(None, reversed(blockers.values())), None):
            return blocker
        in_parts = (one for one in found if one.closure.missing and not one.closure.elsewhere)
        if one := next(in_parts, None):
            return Blocker(
                "the package sources of this machine have only parts of driver "
                f"{one.candidate.version}: {', '.join(one.closure.missing)} is missing",
                "enable the components of the archive that have the rest (Debian: contrib, "
                "non-free and non-free-firmware; Ubuntu: restricted), or declare another driver",
            )
        return not_offered(
            self._machine, self._request, self._asked.offers, self._real(), self._is_fit
        )

    def usable(self) -> tuple[str, ...]:
        """The versions that are fit here, declared or not, the best first."""
        return tuple(one for one in self._real() if self._is_fit(one))

    def _unfit(self, version: str) -> Blocker | None:
        return fitness.unfit(self._catalog, version, self._machine.cards, self._request)

    def _flavors(self, one: Candidate) -> tuple[ModuleFlavor, ...]:
        supported, _ = fitness.flavors(self._catalog, one.version, self._machine.cards)
        wanted = self._request.flavor
        return tuple(one for one in supported if wanted in {"auto", one})

    def _too_new(self, one: Candidate) -> TooNew | None:
        if one.prebuilt:
            return None
        tested = one.kernel.newest_kernel
        kernels = self._machine.kernels
        return fitness.too_new(self._catalog, one.version, kernels, one.flavor, tested)

    def _of_usual_flavors(self, possible: list[Found]) -> Iterator[Found]:
        """Of each version those flavors that come first: the kernels do not choose another."""
        for one in possible:
            version = one.candidate.version
            offered = {its.candidate.flavor for its in possible if its.candidate.version == version}
            usual = fitness.in_order(tuple(offered), version, self._machine.flavor)[0]
            if one.candidate.flavor == usual:
                yield one

    def _for_newer_kernels(
        self, one: Candidate, newer: TooNew, possible: Iterable[Found]
    ) -> Blocker:
        images = " ".join(f"linux-image-{release}" for release in newer.releases)
        building = (its.candidate.flavor for its in possible if not self._too_new(its.candidate))
        instead = self.usable()
        other = ""
        if self._request.is_of_tree:
            other = "check out a tree of a version that does, or "
        elif flavor := next(building, ""):
            other = f'declare "driver_flavor": "{flavor}", whose modules build there, or '
        elif instead:
            other = f'declare "driver": {_quoted(versions.nearest(one.version, instead)[-1])}, or '
        return Blocker(
            f"driver {one.version} ({one.kernel.name} {one.kernel.version}) {newer.reason}, and "
            f"{' and '.join(newer.releases)} could boot next",
            f"{other}boot an older kernel and remove {images}",
        )

    def _of_another_flavor(self, one: Candidate) -> Blocker:
        supported, _ = fitness.flavors(self._catalog, one.version, self._machine.cards)
        wanted = self._request.flavor if self._request.flavor != "auto" else supported[0]
        reason = (
            f"the package sources have only the {one.flavor} modules of driver {one.version}, "
            f"and the {wanted} ones are needed"
        )
        if one.flavor in supported:
            return Blocker(reason, f'declare "driver_flavor": "{one.flavor}", or another driver')
        instead = self.usable()
        fix = f'declare "driver": {_quoted(instead[0])}' if instead else "add a driver_source"
        return Blocker(f"{reason}: only they drive every card", fix)

    def _real(self) -> tuple[str, ...]:
        """The versions that the sources have all of, declared or not, the best first."""
        real = {one.version for one in self._every if self._asked.closure(one).is_complete}
        return tuple(sorted(real, key=self._preference))

    def _is_fit(self, version: str) -> bool:
        """Whether a version is fit for this machine, as far as is known."""
        if self._unfit(version):
            return False
        offered = [one for one in self._every if one.version == version]
        if not offered:
            kernels = self._machine.kernels
            supported, _ = fitness.flavors(self._catalog, version, self._machine.cards)
            return not all(
                fitness.too_new(self._catalog, version, kernels, one) for one in supported
            )
        return any(one.flavor in self._flavors(one) and not self._too_new(one) for one in offered)

    def _choose(self, whole: list[Found]) -> Found:
        machine, request = self._machine, self._request
        same = [one for one in whole if one.candidate.flavor == machine.flavor]
        by_version: dict[str, list[Found]] = defaultdict(list)
        for one in same or whole:
            by_version[one.candidate.version].append(one)
        preferred = [] if request.upgrade else [machine.installed_version, request.locked]
        version = next(
            (one for one in preferred if one in by_version), min(by_version, key=self._preference)
        )
        had = RUN_FILE in machine.installed
        # Of two builds the later one is the newer.
        return min(
            reversed(by_version[version]),
            key=lambda one: (one.candidate.is_run_file != had, one.candidate.is_server),
        )

    def _preference(self, version: str) -> tuple[int, tuple[int, ...]]:
        return fitness.preference(self._catalog, version, self._machine.cards)


def _quoted(version: str) -> str:
    return f'"{version}"'
