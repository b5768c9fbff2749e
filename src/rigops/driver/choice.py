"""What a machine could run: the answers, and what they were made of."""

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


@dataclass(frozen=True)
class Proven:
    """A driver that was proven here before, with the packages that are kept of it."""

    version: str
    offers: Offers


@dataclass(frozen=True)
class Kept:
    """`every`: these and what the sources have, in one order."""

    sets: tuple[Proven, ...]
    every: Offers


@dataclass(frozen=True)
class Folder:
    """The declared one of the controller: its drivers, and what else the sources have."""

    name: str
    offers: Offers


@dataclass(frozen=True, kw_only=True)
class Seen:
    """`offers` are those of the sources, and of what rigops put there without one.

    `unusable`: why nothing can be said of what the declared sources have.
    """

    machine: Machine
    offers: Offers
    loaded: Loaded | None = None
    pinned: PinnedDriver | None = None
    unusable: Refusal | None = None
    kept: Kept | None = None
    folder: Folder | Refusal | None = None  # the refusal: why it cannot be used
    locked: str = ""  # the version that was proven last
    proven_set: DriverSet | None = None  # of a machine that has lost it since

    @property
    def every(self) -> Offers:
        return self.kept.every if self.kept else self.offers


@dataclass(frozen=True, kw_only=True)
class Option:
    """A driver that can be had. `places`: none where it is only installed any more."""

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
