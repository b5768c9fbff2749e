"""The inputs of a check."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import TYPE_CHECKING, TypeVar, cast

from rigops.catalog import Catalog
from rigops.dataclass import dataclass
from rigops.doctor.card import Card, find_cards
from rigops.inventory.spec import RigSpec

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.resolver.options import Choice
    from rigops.power import Neighbor
    from rigops.probe.snapshot import HostSnapshot
    from rigops.record.baseline import Baseline

Value = TypeVar("Value")


@dataclass(frozen=True)
class Examined:
    """All that a check may look at. Without an inventory the spec declares nothing.

    `choose_driver`: what the host's package sources come to; None where they were not asked.
    `neighbors`: other hosts of the inventory on its circuits. `baseline`: of this host, where one
    was taken.
    """

    snapshot: HostSnapshot
    spec: RigSpec
    catalog: Catalog
    choose_driver: Callable[[], Choice | None] = lambda: None
    neighbors: tuple[Neighbor, ...] = ()
    baseline: Baseline | None = None

    @cached_property
    def cards(self) -> tuple[Card, ...]:
        return find_cards(self.snapshot, self.catalog)

    @cached_property
    def views(self) -> dict[object, object]:
        """Results that were computed once, by the function that computed them."""
        return {}


def once(view: Callable[[Examined], Value]) -> Callable[[Examined], Value]:
    @wraps(view)
    def asked(examined: Examined) -> Value:
        if view not in examined.views:
            examined.views[view] = view(examined)
        return cast("Value", examined.views[view])

    return asked
