"""The power budget: power limits of the cards against supplies and circuits.

Watts are supply output, except those of circuits, which include the losses of supplies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from rigops.dataclass import dataclass

if TYPE_CHECKING:
    from rigops.inventory.spec.model import Circuit, Psu

STEADY_SHARE: Final = 0.9  # of a supply's rating, continuous; the rest is margin for aging and heat
CIRCUIT_SHARE: Final = 0.8  # of a breaker's rating, continuous, as in electrical codes
EFFICIENCY: Final = 0.9  # of a supply
BOARD_WATTS: Final = 100.0  # board, memory, disks, fans: an estimate
CPU_WATTS: Final = 150.0  # an estimate too
SPIKE_FACTOR: Final = 1.71  # for unknown cards: the highest known, that of the RTX 3090

Kind = Literal["steady", "peak", "circuit"]


@dataclass(frozen=True, kw_only=True)
class Load:
    """A card at its power limit; None: limit unknown."""

    address: str
    watts: float | None
    spike_factor: float = SPIKE_FACTOR
    least_watts: float | None = None  # the lowest limit that it accepts

    @property
    def peak(self) -> float:
        return (self.watts or 0.0) * self.spike_factor


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
class Wall:
    """The load of this rig on one circuit."""

    name: str
    watts: float
    allowed: float


@dataclass(frozen=True, kw_only=True)
class Budget:
    supplies: tuple[Supply, ...] = ()
    walls: tuple[Wall, ...] = ()
    excesses: tuple[Excess, ...] = ()
    unknown: tuple[str, ...] = ()  # cards with unknown limit
    unfed: tuple[str, ...] = ()  # cards without a named supply, while others have one
    strangers: tuple[str, ...] = ()  # declared addresses that match no card
    unwired: tuple[str, ...] = ()  # supplies without a declared circuit


def host_watts(other_watts: float | None) -> float:
    """Watts of all but the cards: as declared, or an estimate."""
    return BOARD_WATTS + CPU_WATTS if other_watts is None else float(other_watts)


def reckon(
    loads: Sequence[Load],
    *,
    host: float,
    psus: Sequence[Psu] | None,
    circuits: Sequence[Circuit] | None,
) -> Budget:
    supplies, unfed = _supplies(loads, host, psus or ())
    walls, unwired, strained = _walls(loads, host, supplies, circuits or ())
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
        if watts > allowed
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
    loads: Sequence[Load], host: float, supplies: Sequence[Supply], circuits: Sequence[Circuit]
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
            name=circuit.name,
            watts=sum(one.steady for one in group) / EFFICIENCY,
            allowed=circuit.volts * circuit.amperes * CIRCUIT_SHARE,
        )
        walls.append(wall)
        if wall.watts > wall.allowed:
            strained.append(_strained(wall, group))
    unwired = tuple(one.name for one in feeds if circuits and one.circuit not in names)
    return tuple(walls), unwired, strained


def _strained(wall: Wall, group: Sequence[Supply]) -> Excess:
    board = sum(one.host_watts for one in group)
    return Excess(
        kind="circuit",
        where=f"circuit {wall.name}" if wall.name else "the circuit",
        watts=wall.watts,
        allowed=wall.allowed,
        addresses=tuple(load.address for one in group for load in one.loads),
        factor=_shrink(wall.watts * EFFICIENCY, wall.allowed * EFFICIENCY, board),
    )
