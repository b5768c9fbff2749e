"""What a machine could run of what its sources offer: the answers, and what they were made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.catalog import versions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.catalog.model import Flavour, RowStatus
    from rigops.driver.machine import Machine
    from rigops.driver.offers import Offers
    from rigops.driver.request import Refusal
    from rigops.record.driver import PinnedDriver
    from rigops.spec.model import DriverSet


@dataclass(frozen=True)
class Loaded:
    version: str
    flavour: Flavour | None


@dataclass(frozen=True, kw_only=True)
class Seen:
    """`unusable`: why nothing can be said of what the declared sources have."""

    machine: Machine
    offers: Offers
    loaded: Loaded | None = None
    pinned: PinnedDriver | None = None
    unusable: Refusal | None = None


@dataclass(frozen=True, kw_only=True)
class Option:
    """A driver that the sources have. `places`: none where it is only installed any more."""

    version: str
    flavour: Flavour
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
    flavour: Flavour
    declare: Mapping[str, str]
    why: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What the inventory's `driver` comes to: a version, or the refusal."""

    wish: str
    version: str | None = None
    flavour: Flavour | None = None
    why: str = ""
    refusal: Refusal | None = None


@dataclass(frozen=True, kw_only=True)
class Choice:
    """`refusal`: what stands in the way of the recommended one, or why there is none."""

    seen: Seen
    options: tuple[Option, ...]  # newest first
    installed: RowStatus | None  # how the catalogue judges it
    loaded: RowStatus | None
    recommended: Recommendation | None = None
    refusal: Refusal | None = None
    declared: Declared | None = None
