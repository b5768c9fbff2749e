"""What a check is: a pure function with a name, a title and an explanation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rigops.doctor.rig.cards import find_cards

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.catalog import Catalog
    from rigops.doctor.finding import Finding
    from rigops.doctor.rig.cards import Card
    from rigops.probe.facts import HostFacts
    from rigops.spec import RigSpec


@dataclass(frozen=True)
class Examined:
    """All that a check may look at. Without an inventory the spec declares nothing."""

    facts: HostFacts
    spec: RigSpec
    catalog: Catalog

    @cached_property
    def cards(self) -> tuple[Card, ...]:
        return find_cards(self.facts, self.catalog)


@dataclass(frozen=True, kw_only=True)
class Check:
    """Essential always, or where one of `keys` is declared: then it must be possible to judge."""

    id: str
    title: str
    explanation: str
    run: Callable[[Examined], list[Finding]]
    essential: bool = False
    keys: frozenset[str] = frozenset()
