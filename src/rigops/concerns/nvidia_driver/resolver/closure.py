"""Every package of one version of the driver that comes with some of them, by their relations."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.concerns.nvidia_driver.resolver.offers import is_shared
from rigops.probe.package_names import is_driver

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rigops.concerns.nvidia_driver.resolver.offers import Alternatives, Offer, Offers, Relation


@dataclass(frozen=True)
class Closure:
    """`also`: not versioned with the driver. `elsewhere`: what leads to another driver."""

    packages: Mapping[str, Offer]
    also: tuple[str, ...] = ()
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
    """With these packages of NVIDIA's version. `build`: the package version that is preferred.

    `given`: packages of the driver whose own versions say nothing of NVIDIA's.
    """
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
        """What leaves a choice comes last: something else may have made it by then."""
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
        return Closure(self._found, tuple(self._also), tuple(self._elsewhere), tuple(self._missing))

    def take(self, offer: Offer) -> None:
        if offer.name not in self._found:
            self._found[offer.name] = offer
            self._ahead.append(offer)

    def _walk_around(self, name: str) -> None:
        """What is no part of the driver may still ask for parts of it, and apt takes any driver's.

        nvidia-persistenced is such a one: it is content with the libraries of each.
        """
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
            self._elsewhere[f"{offer.name} {offer.version} asks for {_spelled(group)}"] = None

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


def _spelled(group: Alternatives) -> str:
    return " or ".join(
        f"{one.name} ({one.operator} {one.version})" if one.operator else one.name for one in group
    )
