"""The resolution of a driver that was chosen: every package that comes, and every one that goes."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.catalog import versions
from rigops.concerns.nvidia_driver.resolver import fitness, run_file, secure_boot
from rigops.concerns.nvidia_driver.resolver.closure import closure
from rigops.concerns.nvidia_driver.resolver.offers import conflicts, is_shared
from rigops.concerns.nvidia_driver.resolver.request import Resolution
from rigops.probe.package_names import RUN_FILE

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from rigops.catalog.loader import Catalog
    from rigops.concerns.nvidia_driver.resolver.candidates import Candidate
    from rigops.concerns.nvidia_driver.resolver.closure import Closure
    from rigops.concerns.nvidia_driver.resolver.machine import Machine
    from rigops.concerns.nvidia_driver.resolver.offers import Offers
    from rigops.concerns.nvidia_driver.resolver.request import Request
    from rigops.inventory.spec.model import DriverSet

_OF_A_BRANCH = re.compile(
    r"(?P<name>libnvidia-[a-z0-9]+|nvidia-fabricmanager)-\d{3}(?P<server>-server)?"
)


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
    headers = {
        kernel.release: f"linux-headers-{kernel.release.lower()}"
        for kernel in machine.kernels
        if not kernel.has_headers and not chosen.prebuilt
    }
    offered = [name for name in headers.values() if asked.offers.named(name)]
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
        sources={} if chosen.is_run_file else _sources(its, chosen.version),
        also=(*its.also, *(run_file.NEEDS if chosen.is_run_file else ()), *offered),
        beside=dict(_beside(asked.offers, its.also, chosen.version)),
        remove=tuple(_conflicting(machine, chosen, {*its.packages, *its.also})),
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


def _conflicting(machine: Machine, chosen: Candidate, stays: Container[str]) -> Iterator[str]:
    installed = machine.installed
    if chosen.is_run_file:
        installed = {**installed, **dict.fromkeys(machine.rivals_of_run_file, "")}
    for name, version in sorted(installed.items()):
        is_hit = chosen.is_run_file or conflicts(name, version)
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
    """Other installed parts of the driver come too, unless other modules would come with them."""
    chosen, its = found.candidate, found.closure
    if chosen.is_run_file:
        return its
    more: list[str] = []
    for name in dict.fromkeys(_counterparts(asked, chosen)):
        if name in its.packages:
            continue
        longer = asked.closure(chosen, (*more, name))
        if longer.is_complete and set(_modules(longer)) == set(_modules(its)):
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
    return f"newest {'known-good ' if is_good else ''}version that matches the declaration"


def _modules(its: Closure) -> Iterator[str]:
    """The packages that decide which modules there are: a machine has one set of them."""
    return (name for name in its.packages if "kernel" in name or "dkms" in name)


def _without_headers(names: Iterable[str]) -> Iterator[str]:
    for name in sorted(names):
        yield (
            f"no source has {name}: no module is built for that kernel, and with it the machine "
            "would boot without its cards"
        )
