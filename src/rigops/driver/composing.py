"""The resolution of a driver that was chosen: every package that comes, and every one that goes."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.catalog import versions
from rigops.driver import fitness, run_file, secure_boot
from rigops.driver.closure import closure
from rigops.driver.request import Resolution
from rigops.driver.ties import is_shared, stands_in_the_way
from rigops.probe.package_names import RUN_FILE

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from rigops.catalog.loader import Catalog
    from rigops.driver.candidates import Candidate
    from rigops.driver.closure import Closure
    from rigops.driver.machine import Machine
    from rigops.driver.offers import Offers
    from rigops.driver.request import Request
    from rigops.spec.model import DriverSet

_OF_A_BRANCH = re.compile(
    r"(?P<name>libnvidia-[a-z0-9]+|nvidia-fabricmanager)-\d{3}(?P<server>-server)?"
)


@dataclass(frozen=True)
class Found:
    candidate: Candidate
    closure: Closure


@dataclass(frozen=True)
class Question:
    """A machine, what is wanted of it, and what there is."""

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


def composed(asked: Question, found: Found) -> Resolution:
    machine, chosen = asked.machine, found.candidate
    its = _with_followers(asked, found)
    headers = {
        kernel.release: f"linux-headers-{kernel.release.lower()}"
        for kernel in machine.kernels
        if not kernel.has_headers and not chosen.prebuilt
    }
    offered = [name for name in headers.values() if asked.offers.named(name)]
    places = (place for one in its.packages.values() for place in one.places)
    return Resolution(
        version=chosen.version,
        flavour=chosen.flavour,
        packages={name: one.version for name, one in sorted(its.packages.items())},
        asked=tuple(
            name
            for name in (*chosen.names(asked.set_), *(one.name for one in chosen.prebuilt))
            if name in its.packages
        ),
        sources={} if chosen.is_run_file else _sources(its, chosen.version),
        also=(*its.also, *(run_file.NEEDS if chosen.is_run_file else ()), *offered),
        beside=dict(_beside(asked.offers, its.also, chosen.version)),
        remove=tuple(_in_the_way(machine, chosen, {*its.packages, *its.also})),
        places=tuple(dict.fromkeys(places)),
        why=_why(asked, chosen.version),
        notes=(
            *fitness.unknown_cards(machine),
            *fitness.cautions(asked.catalog, chosen.version, machine.cards),
            *_without_headers(set(headers.values()) - set(offered)),
            *([secure_boot.of_signed(machine)] if chosen.prebuilt else []),
        ),
        prebuilt=machine.own_kernels if chosen.prebuilt else (),
        set_=asked.set_,
    )


def _sources(its: Closure, version: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for one in its.packages.values():
        if one.upstream == version:
            found[one.source or one.name][one.version] = None
    return {name: tuple(every) for name, every in sorted(found.items())}


def _in_the_way(machine: Machine, chosen: Candidate, stays: Container[str]) -> Iterator[str]:
    installed = machine.installed
    if chosen.is_run_file:
        installed = {**installed, **dict.fromkeys(machine.rivals_of_run_file, "")}
    for name, version in sorted(installed.items()):
        is_hit = chosen.is_run_file or stands_in_the_way(name, version)
        if is_hit and name not in stays and name != RUN_FILE:
            yield name


def _beside(offers: Offers, names: Iterable[str], version: str) -> Iterator[tuple[str, str]]:
    """No newer than the driver: a newer suite's may not even be installable here."""
    wanted = versions.parse(version)
    for name in names:
        fitting = [
            offer.version
            for offer in offers.named(name)
            if offer.upstream and versions.parse(offer.upstream) <= wanted
        ]
        if fitting:
            yield name, fitting[-1]


def _with_followers(asked: Question, found: Found) -> Closure:
    """What else of the driver is installed comes along, where no other modules come with it."""
    chosen, its = found.candidate, found.closure
    if chosen.is_run_file:
        return its
    more: list[str] = []
    for name in dict.fromkeys(_counterparts(asked, chosen)):
        if name in its.packages:
            continue
        longer = asked.closure(chosen, (*more, name))
        if longer.is_whole and set(_modules(longer)) == set(_modules(its)):
            its = longer
            more.append(name)
    return its


def _counterparts(asked: Question, chosen: Candidate) -> Iterator[str]:
    branch = versions.branch_of(chosen.version) + ("-server" if chosen.is_server else "")
    for name in sorted(asked.machine.installed):
        shape = _OF_A_BRANCH.fullmatch(name)
        name_here = f"{shape['name']}-{branch}" if shape else name
        is_here = asked.offers.at(name_here, chosen.version)
        if is_here or (is_shared(name) and asked.offers.named(name)):
            yield name_here


def _why(asked: Question, version: str) -> str:
    if version == asked.machine.installed_version:
        return "it is installed"
    if version == asked.request.locked:
        return "it was proven on this machine"
    is_good = fitness.rank(asked.catalog, version, asked.machine.cards) == 0
    return f"the newest {'known-good ' if is_good else ''}one of what was declared"


def _modules(its: Closure) -> Iterator[str]:
    """The packages that decide which modules there are: a machine has one set of them."""
    return (name for name in its.packages if "kernel" in name or "dkms" in name)


def _without_headers(names: Iterable[str]) -> Iterator[str]:
    for name in sorted(names):
        yield (
            f"no source has {name}: no module is built for that kernel, and the machine would boot "
            "it without its cards"
        )
