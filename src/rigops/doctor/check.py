"""What a check is: a pure function with a name, a title and an explanation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rigops.doctor import views
from rigops.doctor.finding import Finding
from rigops.doctor.views.cards import find_cards

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.catalog import Catalog
    from rigops.doctor.finding import FixKind
    from rigops.doctor.views.cards import Card
    from rigops.inventory.spec import RigSpec
    from rigops.probe.section import Section
    from rigops.probe.snapshot import HostSnapshot


@dataclass(frozen=True)
class Examined:
    """All that a check may look at. Without an inventory the spec declares nothing."""

    snapshot: HostSnapshot
    spec: RigSpec
    catalog: Catalog

    @cached_property
    def cards(self) -> tuple[Card, ...]:
        return find_cards(self.snapshot, self.catalog)


@dataclass(frozen=True, kw_only=True)
class Check:
    """Essential always, or where one of `keys` is declared: then it must be possible to judge.

    `needs` are the sections that it looks into. With `needs_gpu` it is skipped where there is no
    card, and may count cards too. `cause_rank`: of findings of one status those with the lower
    rank come first, so that a cause is above what it brings about. `fixes` are the kinds of fix
    that its findings may have.
    """

    id: str
    title: str
    explanation: str
    run: Callable[[Examined], list[Finding]]
    needs: tuple[Section[Any], ...] = ()
    needs_gpu: bool = False
    fixes: tuple[FixKind, ...] = ()
    cause_rank: int = 1000
    essential: bool = False
    keys: frozenset[str] = frozenset()

    @property
    def sections(self) -> tuple[Section[Any], ...]:
        """All that it may look into."""
        return (*views.COUNTS_CARDS, *self.needs) if self.needs_gpu else self.needs

    def findings(self, examined: Examined) -> list[Finding]:
        if self.needs_gpu and views.has_no_gpu(examined):
            return [Finding(id=self.id, status="skipped", summary=views.NO_GPU)]
        return self.run(examined)
