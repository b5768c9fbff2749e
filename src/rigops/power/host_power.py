"""One host: its cards, what feeds them, and the circuits that it shares with others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from rigops.catalog import Catalog, find_gpu
from rigops.catalog.model import Gpu
from rigops.dataclass import dataclass
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.choice import GpuIdentity
from rigops.inventory.spec.model import Circuit, Psu
from rigops.power.budget import (
    CIRCUIT_SHARE,
    Budget,
    EqualLimit,
    Share,
    highest_equal_limit,
    host_watts,
    reckon,
)
from rigops.power.loads import KnownCard, Load, loads_of

_ODD_AMPERES: Final = 16.0
_SOLD_AMPERES: Final = (15, 20)
_VOLTS: Final = (100, 127)  # of homes in the Americas and Japan


@dataclass(frozen=True, kw_only=True)
class Feeds:
    """Declarations of supplies, circuits and all that is no card."""

    psus: tuple[Psu, ...] | None = None
    circuits: tuple[Circuit, ...] | None = None
    other_watts: int | None = None

    @staticmethod
    def from_spec(spec: RigSpec) -> Feeds:
        return Feeds(psus=spec.psus, circuits=spec.circuits, other_watts=spec.other_watts)

    @property
    def are_declared(self) -> bool:
        return self.psus is not None or self.circuits is not None

    @property
    def host_watts(self) -> float:
        return host_watts(self.other_watts)


@dataclass(frozen=True, kw_only=True)
class HostPower:
    """`gap`: why not every card is known. Not `is_reached`: by the inventory and the catalog.

    `lost`: cards that have fallen off the bus, in words. `is_clocked`: clocks are declared too.
    """

    host: str
    feeds: Feeds
    loads: tuple[Load, ...]
    gap: str = ""
    lost: str = ""
    is_clocked: bool = False
    is_reached: bool = True

    def budget(self, others: Sequence[Share] = ()) -> Budget:
        """With the limits as the inventory declares them, once they are applied."""
        return self._budget_of(self.loads, others)

    def budget_now(self, others: Sequence[Share] = ()) -> Budget:
        """With the limits in force."""
        in_force = [
            load if load.watts_now is None else replace(load, watts=load.watts_now)
            for load in self.loads
        ]
        return self._budget_of(in_force, others)

    def equal_limit(self, others: Sequence[Share] = ()) -> EqualLimit:
        if self.gap:
            return EqualLimit(is_unknown=True)
        return highest_equal_limit(self.loads, lambda loads: self._budget_of(loads, others))

    def doubts(self, budget: Budget) -> tuple[str, ...]:
        """Why that budget is not all there is."""
        return (*self._own_doubts(budget), *_doubts_of_others(budget.unknown_shares))

    def shares(self) -> tuple[Share, ...]:
        """Its power from circuits with a name."""
        budget = self.budget()
        is_known = not any(self._own_doubts(budget))
        fed = {psu.circuit for psu in self.feeds.psus or ()}
        return tuple(
            Share(
                circuit=wall.name,
                host=self.host,
                watts=wall.own_watts,
                is_known=is_known,
                is_reached=self.is_reached,
            )
            for wall in budget.walls
            if wall.name and (wall.own_watts or budget.unwired or wall.name in fed)
        )

    def _budget_of(self, loads: Sequence[Load], others: Sequence[Share]) -> Budget:
        feeds = self.feeds
        return reckon(
            loads, host=feeds.host_watts, psus=feeds.psus, circuits=feeds.circuits, others=others
        )

    def _own_doubts(self, budget: Budget) -> Iterator[str]:
        gaps = [self.lost, self.gap] if self.lost not in self.gap else [self.gap]
        if known := ": ".join(filter(None, gaps)):
            yield known
        by_reason: dict[str, list[str]] = {}
        for load in self.loads:
            if load.watts is None and not self.gap:
                by_reason.setdefault(load.note, []).append(load.address)
        for reason, addresses in by_reason.items():
            why = f" ({reason})" if reason else ""
            yield f"the limit of {', '.join(addresses)} is not known{why}"
        if budget.unfed:
            yield f"psus does not say what feeds {', '.join(budget.unfed)}"
        if budget.unwired:
            supplies = ", ".join(budget.unwired)
            yield f"on which circuit {supplies} hangs is not declared"


def _doubts_of_others(shares: Iterable[Share]) -> Iterator[str]:
    by_circuit: dict[str, list[str]] = {}
    for one in shares:
        by_circuit.setdefault(one.circuit, []).append(one.host)
    for circuit, hosts in by_circuit.items():
        drawn = f"what {', '.join(hosts)} draws from circuit {circuit}"
        yield f"{drawn} is not known (declare gpus there, by model)"


@dataclass(frozen=True)
class Neighbors:
    """Other hosts of the inventory on the circuits of a host, none of which was asked."""

    hosts: tuple[Neighbor, ...] = ()

    def shares(self, catalog: Catalog) -> tuple[Share, ...]:
        return tuple(
            share
            for one in self.hosts
            for share in from_inventory(one.host, one.spec, catalog).shares()
        )


def from_inventory(host: str, spec: RigSpec, catalog: Catalog) -> HostPower:
    """Of a host that was not asked: the cards that `gpus` names, as the catalog knows them."""
    cards, gap = _declared_cards(spec, catalog)
    declared = spec.gpu_power_limit
    is_by_address = declared and any(one.kind == "address" for one, _ in declared.choices)
    loads = loads_of(cards, declared)
    if is_by_address and any(":" not in card.identity.address for card in cards):
        gap = gap or "gpu_power_limit names addresses, and which card is where is not known"
        loads = tuple(replace(load, watts=None, source="unknown") for load in loads)
    return HostPower(
        host=host,
        feeds=Feeds.from_spec(spec),
        loads=loads,
        gap=gap,
        is_clocked=spec.gpu_clocks is not None,
        is_reached=False,
    )


def _declared_cards(spec: RigSpec, catalog: Catalog) -> tuple[list[KnownCard], str]:
    """And why there may be more. With one model, their addresses are those of `psus`."""
    expected = spec.gpus
    if expected is None or (expected.count and not expected.models):
        return [], "gpus names no models"
    addresses = [address for psu in spec.psus or () for address in psu.gpus]
    if addresses and len(expected.models) > 1:
        return [], "which of the models in gpus is at which address is not known"
    cards: list[KnownCard] = []
    for name, count in expected.models:
        model = _costliest(find_gpu(catalog, name).found, name)
        if model is None:
            return cards, f"the catalog has no {name}"
        for at in range(count):
            address = addresses[at] if at < len(addresses) else f"{name} {at + 1}"
            cards.append(
                KnownCard(
                    identity=GpuIdentity(address, None, (name, model.name, *model.aliases)),
                    model=model,
                    is_asked=False,
                    watts_default=float(model.watts_default),
                    watts_min=float(model.watts_min) or None,
                    watts_max=float(model.watts_max) or None,
                )
            )
    return cards, ""


def _costliest(found: Sequence[Gpu], name: str) -> Gpu | None:
    """Of several that the name fits: with the most watts, so that too little is never counted."""
    if len(found) < 2:  # noqa: PLR2004 - several
        return found[0] if found else None
    most = max(found, key=lambda gpu: gpu.watts_default)
    spikes = max(gpu.spike_factor for gpu in found)
    return replace(most, name=name, spike_factor=spikes)


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
