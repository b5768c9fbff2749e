"""The budget of one host: power limits of its cards against supplies and circuits.

Watts are supply output, except those of circuits, which include the losses of supplies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.inventory.spec.model import Circuit, Psu
from rigops.power.loads import Load

STEADY_SHARE: Final = 0.9  # of a supply's rating, continuous; the rest is margin for aging and heat
CIRCUIT_SHARE: Final = 0.8  # of a breaker's rating, continuous, as in electrical codes
EFFICIENCY: Final = 0.9  # of a supply
BOARD_WATTS: Final = 100.0  # board, memory, disks, fans: an estimate
CPU_WATTS: Final = 150.0  # an estimate too
_ROUNDING: Final = 1e-6  # watts

Kind = Literal["steady", "peak", "circuit"]

KINDS: Final[Mapping[Kind, str]] = {
    "steady": "under lasting load",
    "peak": "in peaks of milliseconds",
    "circuit": "from the wall",
}
SHARES: Final[Mapping[Kind, str]] = {
    "steady": f"{STEADY_SHARE:.0%} of its watts",
    "peak": "all its watts",
    "circuit": f"{CIRCUIT_SHARE:.0%} of the breaker",
}


@dataclass(frozen=True, kw_only=True)
class Supply:
    """One power supply, or several for which the inventory does not say what each one feeds."""

    name: str
    watts: float
    loads: tuple[Load, ...] = ()
    host_watts: float = 0.0
    circuit: str | None = None

    @property
    def steady(self) -> float:
        return self.host_watts + sum(load.watts or 0.0 for load in self.loads)

    @property
    def peak(self) -> float:
        return self.host_watts + sum(load.peak for load in self.loads)


@dataclass(frozen=True, kw_only=True)
class Excess:
    """`addresses`: the cards on it. `factor`: to multiply their watts by to fit."""

    kind: Kind
    where: str
    watts: float
    allowed: float
    addresses: tuple[str, ...]
    factor: float


@dataclass(frozen=True, kw_only=True)
class Share:
    """One host's power from a circuit: at least so much, where not all of it is known."""

    circuit: str
    host: str
    watts: float
    is_known: bool = True
    is_reached: bool = True  # else by the inventory and the catalog


@dataclass(frozen=True, kw_only=True)
class Wall:
    """One circuit: what this host draws from it, and what other hosts do."""

    circuit: Circuit
    own_watts: float
    others: tuple[Share, ...] = ()

    @property
    def name(self) -> str:
        return self.circuit.name

    @property
    def where(self) -> str:
        return f"circuit {self.name}" if self.name else "the circuit"

    @property
    def watts(self) -> float:
        return self.own_watts + self.others_watts

    @property
    def others_watts(self) -> float:
        return sum(one.watts for one in self.others)

    @property
    def allowed(self) -> float:
        return self.circuit.volts * self.circuit.amperes * CIRCUIT_SHARE

    @property
    def is_over(self) -> bool:
        return self.watts > self.allowed + _ROUNDING


@dataclass(frozen=True, kw_only=True)
class Budget:
    supplies: tuple[Supply, ...] = ()
    walls: tuple[Wall, ...] = ()
    excesses: tuple[Excess, ...] = ()
    unknown: tuple[str, ...] = ()  # cards with unknown limit
    unfed: tuple[str, ...] = ()  # cards without a named supply, while others have one
    strangers: tuple[str, ...] = ()  # declared addresses that match no card
    unwired: tuple[str, ...] = ()  # supplies without a declared circuit

    @property
    def unknown_shares(self) -> tuple[Share, ...]:
        """Of other hosts, on circuits from which this one draws something."""
        return tuple(
            one for wall in self.walls if wall.own_watts for one in wall.others if not one.is_known
        )


@dataclass(frozen=True)
class EqualLimit:
    """The highest limit, the same for all cards, under which all fits.

    Without watts none fits, unless it `is_unknown`. Without `has_range` it is not known whether all
    cards accept it.
    """

    watts: int | None = None
    is_unknown: bool = False
    has_range: bool = True


def host_watts(other_watts: float | None) -> float:
    """Watts of all but the cards: as declared, or an estimate."""
    return BOARD_WATTS + CPU_WATTS if other_watts is None else float(other_watts)


def reckon(
    loads: Sequence[Load],
    *,
    host: float,
    psus: Sequence[Psu] | None,
    circuits: Sequence[Circuit] | None,
    others: Sequence[Share] = (),
) -> Budget:
    """`others`: what other hosts draw from the same circuits."""
    supplies, unfed = _supplies(loads, host, psus or ())
    walls, unwired, strained = _walls(loads, host, supplies, circuits or (), others)
    present = {load.address for load in loads}
    return Budget(
        supplies=supplies,
        walls=walls,
        excesses=(*_overloaded(supplies), *strained),
        unknown=tuple(load.address for load in loads if load.watts is None),
        unfed=unfed,
        strangers=tuple(
            address for psu in psus or () for address in psu.gpus if address not in present
        ),
        unwired=unwired,
    )


def fitting(budget: Budget, loads: Iterable[Load]) -> dict[str, int] | None:
    """Limits in whole watts under which all fits. None: these cards cannot go so low."""
    limits: dict[str, int] = {}
    for load in loads:
        factors = [one.factor for one in budget.excesses if load.address in one.addresses]
        if load.watts is None or load.least_watts is None:
            return None
        limits[load.address] = int(load.watts * min([1.0, *factors]))
        if limits[load.address] < load.least_watts:
            return None
    return limits


def highest_equal_limit(
    loads: Sequence[Load], budget_of: Callable[[Sequence[Load]], Budget]
) -> EqualLimit:
    """In whole watts, which all of the cards accept."""
    ranges = [(load.least_watts, load.most_watts or load.watts) for load in loads]
    most = [highest for _, highest in ranges if highest is not None]
    if not loads or len(most) < len(loads):
        return EqualLimit(is_unknown=True)
    least = [lowest for lowest, _ in ranges if lowest is not None]
    has_range = len(least) == len(loads) and all(load.most_watts is not None for load in loads)
    low, high = math.ceil(max(least, default=1)), math.floor(min(most))

    def fits(watts: int) -> bool:
        return not budget_of([replace(load, watts=float(watts)) for load in loads]).excesses

    if low > high or not fits(low):
        return EqualLimit(has_range=has_range)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return EqualLimit(low, has_range=has_range)


def _supplies(
    loads: Sequence[Load], host: float, psus: Sequence[Psu]
) -> tuple[tuple[Supply, ...], tuple[str, ...]]:
    """Supplies that declare what they feed count by themselves; the others share the rest."""
    numbered = [(f"PSU {number}", psu) for number, psu in enumerate(psus, 1)]
    declared = [(name, psu) for name, psu in numbered if len(psus) > 1 and (psu.gpus or psu.host)]
    others = [(name, psu) for name, psu in numbered if (name, psu) not in declared]
    fed = {address for _, psu in declared for address in psu.gpus}
    rest = tuple(load for load in loads if load.address not in fed)
    hosts = sum(psu.host for _, psu in declared)
    found = [
        Supply(
            name=name,
            watts=psu.watts * psu.count,
            loads=tuple(load for load in loads if load.address in psu.gpus),
            host_watts=host / hosts if psu.host else 0.0,
            circuit=psu.circuit,
        )
        for name, psu in declared
    ]
    if others:
        wired = {psu.circuit for _, psu in others}
        shared = Supply(
            name=" and ".join(name for name, _ in others),
            watts=sum(psu.watts * psu.count for _, psu in others),
            loads=rest,
            host_watts=0.0 if hosts else host,
            circuit=wired.pop() if len(wired) == 1 else None,
        )
        return (*found, shared), ()
    if found and not hosts:
        # Some supply feeds the board; undeclared, it counts for the largest.
        largest = max(found, key=lambda one: one.watts)
        found[found.index(largest)] = replace(largest, host_watts=host)
    return tuple(found), tuple(load.address for load in rest) if found else ()


def _overloaded(supplies: Iterable[Supply]) -> list[Excess]:
    return [
        Excess(
            kind=kind,
            where=supply.name,
            watts=watts,
            allowed=allowed,
            addresses=tuple(load.address for load in supply.loads),
            factor=_shrink(watts, allowed, supply.host_watts),
        )
        for supply in supplies
        for kind, watts, allowed in _demands(supply)
        if watts > allowed + _ROUNDING
    ]


def _demands(supply: Supply) -> tuple[tuple[Kind, float, float], ...]:
    return (
        ("steady", supply.steady, supply.watts * STEADY_SHARE),
        ("peak", supply.peak, float(supply.watts)),
    )


def _shrink(watts: float, allowed: float, host: float) -> float:
    cards = watts - host
    return max(0.0, (allowed - host) / cards) if cards > 0 else 0.0


def _walls(
    loads: Sequence[Load],
    host: float,
    supplies: Sequence[Supply],
    circuits: Sequence[Circuit],
    others: Sequence[Share],
) -> tuple[tuple[Wall, ...], tuple[str, ...], list[Excess]]:
    """A single circuit feeds all supplies."""
    whole = Supply(name="the whole rig", watts=0.0, loads=tuple(loads), host_watts=host)
    names = {circuit.name for circuit in circuits}
    feeds = supplies or (whole,)
    if len(circuits) == 1:
        feeds = (replace(whole, circuit=circuits[0].name),)
    walls: list[Wall] = []
    strained: list[Excess] = []
    for circuit in circuits:
        group = [one for one in feeds if one.circuit == circuit.name]
        wall = Wall(
            circuit=circuit,
            own_watts=sum(one.steady for one in group) / EFFICIENCY,
            others=tuple(one for one in others if one.circuit == circuit.name and circuit.name),
        )
        walls.append(wall)
        if wall.own_watts and wall.is_over:
            strained.append(_strained(wall, group))
    unwired = tuple(one.name for one in feeds if circuits and one.circuit not in names)
    return tuple(walls), unwired, strained


def _strained(wall: Wall, group: Sequence[Supply]) -> Excess:
    fixed = sum(one.host_watts for one in group) + wall.others_watts * EFFICIENCY
    hosts = ", ".join(one.host for one in wall.others)
    return Excess(
        kind="circuit",
        where=f"{wall.where} (with {hosts})" if hosts else wall.where,
        watts=wall.watts,
        allowed=wall.allowed,
        addresses=tuple(load.address for one in group for load in one.loads),
        factor=_shrink(wall.watts * EFFICIENCY, wall.allowed * EFFICIENCY, fixed),
    )


def describe_excess(excess: Excess) -> str:
    return (
        f"{excess.where}: {excess.watts:.0f} W {KINDS[excess.kind]}, above the safe "
        f"{excess.allowed:.0f} W ({SHARES[excess.kind]})"
    )
