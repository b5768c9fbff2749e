"""Circuits that several hosts of an inventory share, and breakers that nobody sells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rigops.dataclass import dataclass
from rigops.power.budget import CIRCUIT_SHARE

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec
    from rigops.inventory.spec.model import Circuit

_ODD_AMPERES: Final = 16.0
_SOLD_AMPERES: Final = (15, 20)
_VOLTS: Final = (100, 127)  # of homes in the Americas and Japan


@dataclass(frozen=True)
class Neighbor:
    """Another host of the inventory on one of this host's circuits."""

    host: str
    spec: RigSpec


def sharing(host: str, specs: Mapping[str, RigSpec]) -> tuple[Neighbor, ...]:
    """By the names of circuits: one without a name is its host's own."""
    own = specs.get(host)
    named = _names(own) if own else frozenset()
    if not named:
        return ()
    return tuple(
        Neighbor(name, spec)
        for name, spec in specs.items()
        if name != host and not named.isdisjoint(_names(spec))
    )


def odd_breaker(circuit: Circuit) -> str:
    """The breakers sold where the declared one is not, or nothing."""
    if circuit.amperes != _ODD_AMPERES or not _VOLTS[0] <= circuit.volts <= _VOLTS[1]:
        return ""
    carried = " or ".join(
        f"{amperes} A ({circuit.volts * amperes * CIRCUIT_SHARE:.0f} W for hours)"
        for amperes in _SOLD_AMPERES
    )
    return f"no breaker of 16 A is sold for {circuit.volts:g} V, but of {carried}"


def _names(spec: RigSpec) -> frozenset[str]:
    return frozenset(circuit.name for circuit in spec.circuits or () if circuit.name)
