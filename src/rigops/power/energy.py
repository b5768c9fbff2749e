"""A host's power from the wall when it works and when it does not, and its cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rigops.dataclass import dataclass
from rigops.power.budget import EFFICIENCY
from rigops.power.loads import Load

IDLE_WATTS: Final = 25.0  # of a card that does not report it: an estimate
IDLE_SHARE: Final = 0.5  # of all but the cards, while nothing runs: an estimate too
HOURS_PER_DAY: Final = 24
DAYS_PER_MONTH: Final = 30


@dataclass(frozen=True, kw_only=True)
class Energy:
    """Watts are at the wall. `duty_percent`: of the time with all cards at their limits."""

    busy_watts: float
    idle_watts: float
    duty_percent: float
    price: float | None = None  # of a kWh

    @property
    def kwh_per_day(self) -> float:
        busy = self.duty_percent / 100
        watts = self.busy_watts * busy + self.idle_watts * (1 - busy)
        return watts * HOURS_PER_DAY / 1000

    @property
    def kwh_per_month(self) -> float:
        return self.kwh_per_day * DAYS_PER_MONTH

    @property
    def cost_per_day(self) -> float | None:
        return None if self.price is None else self.kwh_per_day * self.price

    @property
    def cost_per_month(self) -> float | None:
        return None if self.price is None else self.kwh_per_month * self.price


def energy(
    loads: Sequence[Load], *, host: float, duty_percent: float, price: float | None
) -> Energy | None:
    """None: the limit of a card is not known."""
    busy = [load.watts for load in loads if load.watts is not None]
    if len(busy) < len(loads):
        return None
    idle = [IDLE_WATTS if load.watts_idle is None else load.watts_idle for load in loads]
    return Energy(
        busy_watts=(sum(busy) + host) / EFFICIENCY,
        idle_watts=(sum(idle) + host * IDLE_SHARE) / EFFICIENCY,
        duty_percent=duty_percent,
        price=price,
    )
