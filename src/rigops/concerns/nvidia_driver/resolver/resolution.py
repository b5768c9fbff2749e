"""The resolution of a driver that was chosen: every package that comes, and every one that goes.

The result is a closure: the packages of one version that come with some of them, by relations.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping

from rigops.catalog import versions
from rigops.catalog.loader import Catalog
from rigops.concerns.nvidia_driver.resolver import fitness
from rigops.concerns.nvidia_driver.resolver.by_hand import signed_note
from rigops.concerns.nvidia_driver.resolver.candidates import Candidate
from rigops.concerns.nvidia_driver.resolver.machine import Machine
from rigops.concerns.nvidia_driver.resolver.offers import (
    Alternatives,
    Offer,
    Offers,
    Relation,
    conflicts,
    is_shared,
)
from rigops.concerns.nvidia_driver.resolver.request import Request, Resolution
from rigops.dataclass import dataclass
from rigops.inventory.spec.model import DriverSet
from rigops.probe.package_names import (
    RUN_FILE,
    driver_version,
    headers_of,
    is_driver,
    is_driver_tool,
)

_OF_A_BRANCH = re.compile(
    r"^(?P<name>libnvidia-[a-z0-9]+|nvidia-fabricmanager)-[0-9]{3}(?:-server)?$"
)


@dataclass(frozen=True)
class Closure:
    """`also`: not versioned with the driver. `elsewhere`: what leads to another driver.

    `tools`: those of the driver that come with it, whether named or needed.
    """

    packages: Mapping[str, Offer]
    also: tuple[str, ...] = ()
    tools: frozenset[str] = frozenset()
    elsewhere: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        return not self.elsewhere and not self.missing


def closure(
    names: Iterable[str],
    version: str,
    offers: Offers,
    build: str = "",
    given: Iterable[Offer] = (),
) -> Closure:
    """`build`: the preferred package version. `given`: taken whatever version they have."""
    search = _Search(version, offers, build)
    for offer in given:
        search.take(offer)
    for name in names:
        search.begin_with(name)
    return search.end()


class _Search:
    def __init__(self, version: str, offers: Offers, build: str) -> None:
        self._version = version
        self._offers = offers
        self._build = build
        self._found: dict[str, Offer] = {}
        self._around: set[str] = set()
        self._also: dict[str, None] = {}
        self._missing: dict[str, None] = {}
        self._elsewhere: dict[str, None] = {}
        self._ahead: deque[Offer] = deque()
        self._choices: deque[tuple[Offer, Alternatives]] = deque()

    def begin_with(self, name: str) -> None:
        if is_driver(name):
            if offer := self._best(self._offers.named(name)):
                self.take(offer)
            else:
                self._missing[name] = None
        elif self._offers.named(name):
            self._also[name] = None
            self._walk_around(name)
        else:
            self._missing[name] = None

    def end(self) -> Closure:
        """Relations with a choice come last: another one may have made it by then."""
        while self._ahead or self._choices:
            while self._ahead:
                offer = self._ahead.popleft()
                for group in offer.depends:
                    if len(group) == 1:
                        self._follow(offer, group)
                    else:
                        self._choices.append((offer, group))
            if self._choices:
                self._follow(*self._choices.popleft())
        return Closure(
            packages=self._found,
            also=tuple(self._also),
            tools=frozenset(filter(is_driver_tool, self._around)),
            elsewhere=tuple(self._elsewhere),
            missing=tuple(self._missing),
        )

    def take(self, offer: Offer) -> None:
        if offer.name not in self._found:
            self._found[offer.name] = offer
            self._ahead.append(offer)

    def _walk_around(self, name: str) -> None:
        """Other packages may need parts of any driver, as nvidia-persistenced does."""
        if name not in self._around and (named := self._offers.named(name)):
            self._around.add(name)
            self._ahead.append(named[-1])

    def _follow(self, offer: Offer, group: Alternatives) -> None:
        first = group[0]
        if self._is_no_driver(first.name):
            self._walk_around(first.name)
            return
        if any(_fits(one, its) for one in group for its in self._found.values()):
            return
        answer = next(filter(None, map(self._answer, group)), None)
        answer = answer or next(filter(None, map(self._shared, group)), None)
        if answer:
            self.take(answer)
        elif not any(self._is_no_driver(one.name) for one in group):
            spelled = " or ".join(
                f"{one.name} ({one.operator} {one.version})" if one.operator else one.name
                for one in group
            )
            self._elsewhere[f"{offer.name} {offer.version} asks for {spelled}"] = None

    def _answer(self, one: Relation) -> Offer | None:
        providing = (its for its in self._offers.providing(one.name) if is_driver(its.name))
        return self._best(
            its for its in self._offers.named(one.name) if _fits(one, its)
        ) or self._best(its for its in providing if _fits(one, its))

    def _shared(self, one: Relation) -> Offer | None:
        named = self._offers.named(one.name) if is_shared(one.name) else ()
        return named[-1] if named and _fits(one, named[-1]) else None

    def _best(self, every: Iterable[Offer]) -> Offer | None:
        fitting = [one for one in every if one.upstream == self._version]
        preferred = [one for one in fitting if one.version == self._build]
        return next(reversed(preferred or fitting), None)

    def _is_no_driver(self, name: str) -> bool:
        """Something that apt may see to: not the driver, and no name that only drivers have."""
        if is_driver(name):
            return False
        providers = self._offers.providing(name)
        return not providers or not all(is_driver(one.name) for one in providers)


def _fits(one: Relation, offer: Offer) -> bool:
    """Only exact versions are compared: bounds are met by any build of the version looked for."""
    if offer.name == one.name and one.operator != "=":
        return True
    versions = {offer.version} if offer.name == one.name else set()
    provided = [its for its in offer.provides if its.name == one.name]
    if one.operator != "=":
        return bool(provided)
    return one.version in versions | {its.version for its in provided}


@dataclass(frozen=True)
class Found:
    candidate: Candidate
    closure: Closure


@dataclass(frozen=True)
class Question:
    """A machine, what is declared for it, and what its sources have."""

    machine: Machine
    request: Request
    offers: Offers
    catalog: Catalog

    @property
    def set_(self) -> DriverSet:
        return self.request.set_ or self.machine.set_

    def closure(self, one: Candidate, more: Iterable[str] = ()) -> Closure:
        names = (*one.names(self.set_), *more)
        return closure(names, one.version, self.offers, one.kernel.version, one.prebuilt)


def resolution(asked: Question, found: Found) -> Resolution:
    machine, chosen = asked.machine, found.candidate
    its = _with_followers(asked, found)
    rank = fitness.rank(asked.catalog, chosen.version, machine.cards)
    why = f"newest {'' if rank else 'known-good '}version that matches the declaration"
    if chosen.version == machine.installed_version:
        why = "it is installed"
    elif chosen.version == asked.request.locked:
        why = "it was proven on this machine"
    headers = {
        kernel.release: headers_of(kernel.release)
        for kernel in machine.kernels
        if not kernel.has_headers and not chosen.prebuilt
    }
    offered = [name for name in headers.values() if asked.offers.named(name)]
    sources: dict[str, tuple[str, ...]] = {}
    for one in sorted(its.packages.values(), key=lambda one: one.source or one.name):
        name = one.source or one.name
        if one.upstream == chosen.version and one.version not in sources.get(name, ()):
            sources[name] = (*sources.get(name, ()), one.version)
    places = (place for one in its.packages.values() for place in one.places)
    return Resolution(
        version=chosen.version,
        flavor=chosen.flavor,
        packages={name: one.version for name, one in sorted(its.packages.items())},
        asked=tuple(
            name
            for name in (*chosen.names(asked.set_), *(one.name for one in chosen.prebuilt))
            if name in its.packages
        ),
        sources={} if chosen.is_run_file else sources,
        also=(*its.also, *(("dkms",) if chosen.is_run_file else ()), *offered),
        beside={} if chosen.is_run_file else dict(_beside(asked, its, chosen.version)),
        remove=tuple(_conflicting(machine, chosen, {*its.packages, *its.also})),
        places=tuple(dict.fromkeys(places)),
        why=why,
        notes=(
            *fitness.unknown_cards(machine),
            *fitness.cautions(asked.catalog, chosen.version, machine.cards),
            *(
                f"no source has {name}: no module is built for that kernel, and with it the "
                "machine would boot without its cards"
                for name in sorted(set(headers.values()) - set(offered))
            ),
            *([signed_note(machine)] if chosen.prebuilt else []),
        ),
        prebuilt=machine.own_kernels if chosen.prebuilt else (),
        set_=asked.set_,
    )


def _conflicting(machine: Machine, chosen: Candidate, stays: Container[str]) -> Iterator[str]:
    installed = machine.installed
    if chosen.is_run_file:
        installed = {**installed, **dict.fromkeys(machine.rivals_of_run_file, "")}
    for name, version in sorted(installed.items()):
        is_hit = chosen.is_run_file or conflicts(name, version)
        if is_hit and name not in stays and name != RUN_FILE:
            yield name


def _beside(asked: Question, its: Closure, version: str) -> Iterator[tuple[str, str]]:
    """The tools that come, and those that are there. With the driver one stays too, if it fits.

    Where only newer ones are offered, the one that is there stays.
    """
    there = asked.machine.tools
    driver_stays = version == asked.machine.installed_version and not asked.request.upgrade
    wanted = filter(asked.offers.named, asked.request.tools)
    for name in sorted({*its.tools, *there, *wanted}):
        offered = asked.offers.named(name)
        fitting = tuple(one for one in offered if is_branch_fit(one.version, version))
        is_fit = name in there and is_branch_fit(there[name], version)
        if (driver_stays and is_fit) or (name in there and not fitting):
            yield name, there[name]
        else:
            best = asked.offers.at(name, version) or (fitting or offered[:1])[-1]
            yield name, best.version


def is_branch_fit(tool: str, driver: str) -> bool:
    """Of the driver's branch or an older one. A newer one of it may be a security update."""
    version = driver_version(tool)
    return version is not None and versions.parse(version).major <= versions.parse(driver).major


def _with_followers(asked: Question, found: Found) -> Closure:
    """Other installed parts of the driver come too, unless other modules would come with them."""
    chosen, its = found.candidate, found.closure
    if chosen.is_run_file:
        return its
    more: list[str] = []
    for name in dict.fromkeys(_counterparts(asked, chosen)):
        if name in its.packages:
            continue
        longer = asked.closure(chosen, (*more, name))
        if longer.is_complete and _modules(longer) == _modules(its):
            its = longer
            more.append(name)
    return its


def _counterparts(asked: Question, chosen: Candidate) -> Iterator[str]:
    branch = versions.branch_of(chosen.version) + ("-server" if chosen.is_server else "")
    for name in sorted(asked.machine.installed):
        name_here = _OF_A_BRANCH.sub(rf"\g<name>-{branch}", name)
        is_here = asked.offers.at(name_here, chosen.version)
        if is_here or (is_shared(name) and asked.offers.named(name)):
            yield name_here


def _modules(its: Closure) -> set[str]:
    """The packages that decide which modules there are: a machine has one set of them."""
    return {name for name in its.packages if "kernel" in name or "dkms" in name}
