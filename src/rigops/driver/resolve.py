"""The driver that a machine gets for what was declared, or why it gets none."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.catalog import versions
from rigops.catalog.lookup import find_branch
from rigops.driver import elsewhere, fitness, prebuilt, secure_boot
from rigops.driver.absence import absent
from rigops.driver.candidates import candidates
from rigops.driver.closure import closure
from rigops.driver.request import Refusal, Resolution
from rigops.driver.ties import is_shared, stands_in_the_way

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rigops.catalog.loader import Catalog
    from rigops.catalog.model import Flavour
    from rigops.driver.candidates import Candidate
    from rigops.driver.closure import Closure
    from rigops.driver.machine import Machine, RunFile
    from rigops.driver.offers import Offers
    from rigops.driver.request import Request

_OF_A_BRANCH = re.compile(
    r"(?P<name>libnvidia-[a-z0-9]+|nvidia-fabricmanager)-\d{3}(?P<server>-server)?"
)


def resolve(
    machine: Machine, request: Request, offers: Offers, catalog: Catalog
) -> Resolution | Refusal:
    """Whatever the sources say: they are asked only for what could be fit at all."""
    if refusal := _hopeless(machine, request, offers, catalog):
        return refusal
    if machine.manager != "apt":
        return elsewhere.by_hand(machine, request, catalog)
    if machine.takes_signed_only:
        return _signed(machine, request, offers, catalog)
    return _Resolver(machine, request, offers, catalog, candidates(offers)).answer()


def _hopeless(
    machine: Machine, request: Request, offers: Offers, catalog: Catalog
) -> Refusal | None:
    """What no source can change."""
    if machine.run_file:
        return _of_no_package(machine.run_file)
    if machine.takes_signed_only and machine.manager != "apt":
        return secure_boot.unsigned(machine, request)
    known = [
        release.version
        for branch in catalog.drivers
        for release in branch.releases
        if request.takes(release.version)
    ]
    is_there = any(one.version == request.wish.text for one in candidates(offers))
    if request.wish.kind == "version" and not known and not is_there:
        return _never_released(request.wish.text, catalog)
    refusals = []
    for version in known or _unlisted(request, catalog):
        refusal = _unfit(version, machine, request, catalog)
        if refusal is None:
            return None
        refusals.append(refusal)
    return refusals[-1] if refusals else None


def _signed(
    machine: Machine, request: Request, offers: Offers, catalog: Catalog
) -> Resolution | Refusal:
    """With the modules that the distribution signed, as far as its sources have them."""
    every = prebuilt.candidates(offers, machine.own_kernels)
    resolver = _Resolver(machine, request, offers, catalog, every)
    found = resolver.answer()
    if isinstance(found, Resolution):
        return found
    return secure_boot.unsigned(machine, request, resolver.usable())


def _of_no_package(run_file: RunFile) -> Refusal:
    version = f" {run_file.version}" if run_file.version else ""
    reason = (
        f"NVIDIA's own installer put a driver{version} here, and packages would share its files"
    )
    if not run_file.uninstaller:
        name = f"NVIDIA-Linux-x86_64-{run_file.version or 'VERSION'}.run"
        return Refusal(
            reason,
            f"its uninstaller is gone, so run `sudo sh {name} --uninstall` with the file that it "
            "came from, then this again",
        )
    return Refusal(
        reason,
        "`rigops apply --remove-foreign-driver` has its own uninstaller take it away first; by "
        f"hand that is `sudo {run_file.uninstaller} --uninstall --silent`",
    )


def _unfit(version: str, machine: Machine, request: Request, catalog: Catalog) -> Refusal | None:
    _, refusal = fitness.flavours(catalog, version, machine.cards)
    refusal = refusal or fitness.flavour_refused(catalog, version, machine.cards, request.flavor)
    if refusal is None and not request.allow_bad:
        return fitness.bad(catalog, version, machine.cards)
    return refusal


def _never_released(version: str, catalog: Catalog) -> Refusal | None:
    """Of a branch whose releases the catalogue has; a newer one than those may well exist."""
    branch = find_branch(catalog, versions.branch_of(version))
    if branch is None or not branch.releases:
        return None
    every = [one.version for one in branch.releases]
    if versions.parse(version) > max(map(versions.parse, every)):
        return None
    near = versions.nearest(version, every)
    return Refusal(
        f"NVIDIA is not known to have ever released a driver {version}",
        f"declare driver = {' or '.join(map(_quoted, near))}, the nearest that it released",
    )


def _unlisted(request: Request, catalog: Catalog) -> list[str]:
    """A release that the catalogue lacks, of a branch that it knows: its cards can be judged."""
    if request.wish.kind == "version":
        return [request.wish.text]
    if request.wish.kind != "branch" or find_branch(catalog, request.wish.text) is None:
        return []
    return [f"{request.wish.text}.0"]


@dataclass(frozen=True)
class _Found:
    candidate: Candidate
    closure: Closure


class _Resolver:
    def __init__(
        self,
        machine: Machine,
        request: Request,
        offers: Offers,
        catalog: Catalog,
        every: tuple[Candidate, ...],
    ) -> None:
        self._machine = machine
        self._request = request
        self._offers = offers
        self._catalog = catalog
        self._set = request.set_ or machine.set_
        self._every = tuple(one for one in every if one.names(self._set))

    def answer(self) -> Resolution | Refusal:
        matching = sorted(
            (one for one in self._every if self._request.takes(one.version)),
            key=lambda one: versions.parse(one.version),
        )
        refusals = {one.version: self._unfit(one.version) for one in matching}
        fit = [one for one in matching if refusals[one.version] is None]
        found = [_Found(one, self._closure(one)) for one in fit]
        whole = [one for one in found if one.closure.is_whole]
        possible = [one for one in whole if one.candidate.flavour in self._flavours(one.candidate)]
        wanted = list(self._of_usual_flavours(possible))
        built = [one for one in wanted if not self._too_new(one.candidate)]
        if built:
            return self._resolution(self._choose(built))
        if wanted:
            return self._for_newer_kernels(self._choose(wanted).candidate, possible)
        if whole:
            return self._of_another_flavour(whole[-1].candidate)
        for refusal in reversed(refusals.values()):
            if refusal:
                return refusal
        return self._incomplete(found) or absent(
            self._machine, self._request, self._offers, self._real(), self._would_do
        )

    def usable(self) -> tuple[str, ...]:
        """The versions that would do here, wanted or not, the best first."""
        return tuple(one for one in self._real() if self._would_do(one))

    def _unfit(self, version: str) -> Refusal | None:
        return _unfit(version, self._machine, self._request, self._catalog)

    def _flavours(self, one: Candidate) -> tuple[Flavour, ...]:
        supported, _ = fitness.flavours(self._catalog, one.version, self._machine.cards)
        wanted = self._request.flavor
        return tuple(one for one in supported if wanted in {"auto", one})

    def _too_new(self, one: Candidate) -> tuple[str, ...]:
        if one.prebuilt:
            return ()
        said = one.kernel.newest_kernel
        return fitness.too_new(self._catalog, one.version, self._machine.kernels, said)

    def _of_usual_flavours(self, possible: list[_Found]) -> Iterator[_Found]:
        """Of each version those flavours that come first: the kernels do not choose another."""
        for one in possible:
            version = one.candidate.version
            offered = {
                its.candidate.flavour for its in possible if its.candidate.version == version
            }
            if one.candidate.flavour == self._in_order(version, offered)[0]:
                yield one

    def _in_order(self, version: str, offered: Iterable[Flavour]) -> tuple[Flavour, ...]:
        return fitness.in_order(tuple(offered), version, self._machine.flavour)

    def _for_newer_kernels(self, one: Candidate, possible: Iterable[_Found]) -> Refusal:
        newer = self._too_new(one)
        limit = fitness.ceiling(self._catalog, one.version, one.kernel.newest_kernel)
        images = " ".join(f"linux-image-{release}" for release in newer)
        building = (its.candidate.flavour for its in possible if not self._too_new(its.candidate))
        instead = self.usable()
        other = ""
        if flavour := next(building, ""):
            other = f'declare driver_flavor = "{flavour}", whose modules build there, or '
        elif instead:
            other = f"declare driver = {_quoted(versions.nearest(one.version, instead)[-1])}, or "
        return Refusal(
            f"driver {one.version} ({one.kernel.name} {one.kernel.version}) is known to build up "
            f"to Linux {limit}, and {' and '.join(newer)} could boot next",
            f"{other}boot an older kernel and remove {images}",
        )

    def _of_another_flavour(self, one: Candidate) -> Refusal:
        supported, _ = fitness.flavours(self._catalog, one.version, self._machine.cards)
        wanted = self._request.flavor if self._request.flavor != "auto" else supported[0]
        reason = (
            f"the package sources have only the {one.flavour} modules of driver {one.version}, "
            f"and the {wanted} ones are wanted"
        )
        if one.flavour in supported:
            return Refusal(reason, f'declare driver_flavor = "{one.flavour}", or another driver')
        instead = self.usable()
        cure = f"declare driver = {_quoted(instead[0])}" if instead else "add a driver_source"
        return Refusal(f"{reason}: only they drive every card", cure)

    def _incomplete(self, found: Iterable[_Found]) -> Refusal | None:
        for one in found:
            if one.closure.missing and not one.closure.elsewhere:
                return Refusal(
                    "the package sources of this machine have only parts of driver "
                    f"{one.candidate.version}: {', '.join(one.closure.missing)} is missing",
                    "enable the components of the archive that have the rest (Debian: contrib, "
                    "non-free and non-free-firmware; Ubuntu: restricted), or declare another "
                    "driver",
                )
        return None

    def _closure(self, one: Candidate, more: Iterable[str] = ()) -> Closure:
        names = (*one.names(self._set), *more)
        return closure(names, one.version, self._offers, one.kernel.version, one.prebuilt)

    def _real(self) -> tuple[str, ...]:
        """The versions that the sources have all of, wanted or not, the best first."""
        real = {one.version for one in self._every if self._closure(one).is_whole}
        return tuple(sorted(real, key=self._preference))

    def _would_do(self, version: str) -> bool:
        """Whether a version is fit for this machine, as far as is known."""
        if self._unfit(version):
            return False
        offered = [one for one in self._every if one.version == version]
        if not offered:
            return not fitness.too_new(self._catalog, version, self._machine.kernels)
        return any(one.flavour in self._flavours(one) and not self._too_new(one) for one in offered)

    def _choose(self, whole: list[_Found]) -> _Found:
        machine, request = self._machine, self._request
        same = [one for one in whole if one.candidate.flavour == machine.flavour]
        by_version: dict[str, list[_Found]] = defaultdict(list)
        for one in same or whole:
            by_version[one.candidate.version].append(one)
        kept = [] if request.upgrade else [machine.installed_version, request.locked]
        version = next(
            (one for one in kept if one in by_version), min(by_version, key=self._preference)
        )
        # Of two builds the later one is the newer.
        return min(reversed(by_version[version]), key=lambda one: one.candidate.is_server)

    def _preference(self, version: str) -> tuple[int, tuple[int, ...]]:
        """The best judged first, and of those the newest."""
        rank = fitness.rank(self._catalog, version, self._machine.cards)
        return (rank, tuple(-part for part in versions.parse(version).release))

    def _resolution(self, found: _Found) -> Resolution:
        machine, chosen = self._machine, found.candidate
        its = self._with_followers(found)
        sources: dict[str, dict[str, None]] = defaultdict(dict)
        for one in its.packages.values():
            if one.upstream == chosen.version:
                sources[one.source or one.name][one.version] = None
        headers = {
            kernel.release: f"linux-headers-{kernel.release.lower()}"
            for kernel in machine.kernels
            if not kernel.has_headers and not chosen.prebuilt
        }
        offered = [name for name in headers.values() if self._offers.named(name)]
        places = (place for one in its.packages.values() for place in one.places)
        stays = {*its.packages, *its.also}
        return Resolution(
            version=chosen.version,
            flavour=chosen.flavour,
            packages={name: one.version for name, one in sorted(its.packages.items())},
            asked=tuple(
                name
                for name in (*chosen.names(self._set), *(one.name for one in chosen.prebuilt))
                if name in its.packages
            ),
            sources={name: tuple(every) for name, every in sorted(sources.items())},
            also=(*its.also, *offered),
            beside=dict(self._beside(its.also, chosen.version)),
            remove=tuple(
                name
                for name, version in sorted(machine.installed.items())
                if name not in stays and stands_in_the_way(name, version)
            ),
            places=tuple(dict.fromkeys(places)),
            why=self._why(chosen.version),
            notes=(
                *fitness.unknown_cards(machine),
                *fitness.cautions(self._catalog, chosen.version, machine.cards),
                *_without_headers(set(headers.values()) - set(offered)),
                *([secure_boot.of_signed(machine)] if chosen.prebuilt else []),
            ),
            prebuilt=machine.own_kernels if chosen.prebuilt else (),
        )

    def _beside(self, names: Iterable[str], version: str) -> Iterator[tuple[str, str]]:
        """No newer than the driver: a newer suite's may not even be installable here."""
        wanted = versions.parse(version)
        for name in names:
            fitting = [
                offer.version
                for offer in self._offers.named(name)
                if offer.upstream and versions.parse(offer.upstream) <= wanted
            ]
            if fitting:
                yield name, fitting[-1]

    def _with_followers(self, found: _Found) -> Closure:
        """What else of the driver is installed comes along, where no other modules come with it."""
        chosen, its = found.candidate, found.closure
        more: list[str] = []
        for name in dict.fromkeys(self._counterparts(chosen)):
            if name in its.packages:
                continue
            longer = self._closure(chosen, (*more, name))
            if longer.is_whole and set(_modules(longer)) == set(_modules(its)):
                its = longer
                more.append(name)
        return its

    def _counterparts(self, chosen: Candidate) -> Iterator[str]:
        branch = versions.branch_of(chosen.version) + ("-server" if chosen.is_server else "")
        for name in sorted(self._machine.installed):
            shape = _OF_A_BRANCH.fullmatch(name)
            name_here = f"{shape['name']}-{branch}" if shape else name
            is_here = self._offers.at(name_here, chosen.version)
            if is_here or (is_shared(name) and self._offers.named(name)):
                yield name_here

    def _why(self, version: str) -> str:
        if version == self._machine.installed_version:
            return "it is installed"
        if version == self._request.locked:
            return "it was proven on this machine"
        is_good = fitness.rank(self._catalog, version, self._machine.cards) == 0
        return f"the newest {'known-good ' if is_good else ''}one of what was declared"


def _modules(its: Closure) -> Iterator[str]:
    """The packages that decide which modules there are: a machine has one set of them."""
    return (name for name in its.packages if "kernel" in name or "dkms" in name)


def _quoted(version: str) -> str:
    return f'"{version}"'


def _without_headers(names: Iterable[str]) -> Iterator[str]:
    for name in sorted(names):
        yield (
            f"no source has {name}: no module is built for that kernel, and the machine would boot "
            "it without its cards"
        )
