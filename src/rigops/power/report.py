"""The power of hosts as a document: what fits, what it draws, what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.errors import HostError
from rigops.inventory.spec.model import Circuit
from rigops.power.budget import EFFICIENCY, STEADY_SHARE, Budget, EqualLimit, Share, Supply, Wall
from rigops.power.energy import Energy, energy
from rigops.power.host_power import HostPower, odd_breaker
from rigops.power.loads import Load

SCHEMA: Final = "rigops.power/1"
Status = Literal["fail", "unknown", "warn", "ok", "skipped"]
Source = Literal["ssh", "local", "inventory"]
WORST_FIRST: Final[tuple[Status, ...]] = ("fail", "unknown", "warn", "ok", "skipped")
_CLOCKS: Final = (
    "gpu_clocks is declared and not counted: capped clocks draw less than shown, above all in peaks"
)
_EXIT_CODES: Final[dict[Status, int]] = {"fail": 1, "unknown": 3}


@dataclass(frozen=True)
class Measured:
    """A UPS's power to all that it feeds. None: it does not measure that."""

    ups: str
    watts: float | None
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PowerReport:
    power: HostPower
    source: Source
    duty_percent: int
    price: float | None = None
    others: tuple[Share, ...] = ()
    measured: tuple[Measured, ...] = ()
    error: HostError | None = None

    @property
    def host(self) -> str:
        return self.power.host

    @cached_property
    def budget(self) -> Budget:
        return self.power.budget(self.others)

    @cached_property
    def now(self) -> Budget:
        return self.power.budget_now(self.others)

    @cached_property
    def doubts(self) -> tuple[str, ...]:
        return self.power.doubts(self.budget)

    @cached_property
    def equal_limit(self) -> EqualLimit:
        return self.power.equal_limit(self.others)

    @cached_property
    def energy(self) -> Energy | None:
        if self.power.gap:
            return None
        return energy(
            self.power.loads,
            host=self.power.feeds.host_watts,
            duty_percent=self.duty_percent,
            price=self.price,
        )

    @property
    def status(self) -> Status:
        """A host that was not reached may be over as declared, and is never known to fit."""
        if self.budget.excesses:
            return "fail"
        if self.doubts or self.error:
            return "unknown"
        if self.now.excesses:
            return "warn"
        return "ok" if self.power.feeds.are_declared else "skipped"

    @property
    def measured_watts(self) -> float | None:
        known = [one.watts for one in self.measured if one.watts is not None]
        return sum(known) if known else None

    @property
    def notes(self) -> tuple[str, ...]:
        odd = (odd_breaker(circuit) for circuit in self.power.feeds.circuits or ())
        cards: dict[str, list[str]] = {}
        for load in self.power.loads:
            if load.note and load.watts is not None:
                cards.setdefault(load.note, []).append(load.address)
        refused = (f"{', '.join(every)}: {note}" for note, every in cards.items())
        clocks = _CLOCKS if self.power.is_clocked and self.power.loads else ""
        return tuple(dict.fromkeys(one for one in (*odd, *refused, clocks) if one))

    def as_json(self) -> dict[str, object]:
        feeds, limit = self.power.feeds, self.equal_limit
        document: dict[str, object] = {
            "host": self.host,
            "status": self.status,
            "source": self.source,
            "gpus": [self._gpu(load) for load in self.power.loads],
            "other_watts": _watts(feeds.host_watts),
            "other_watts_declared": feeds.other_watts is not None,
            "psus": [_psu(supply) for supply in self.budget.supplies],
            "circuits": [_circuit(wall) for wall in self.budget.walls],
            "wall": self._wall(),
            "energy": self._energy(),
            "equal_limit": {
                "watts": limit.watts,
                "unknown": limit.is_unknown,
                "range_known": limit.has_range,
            },
            "excesses": _excesses(self.budget),
            "excesses_now": _excesses(self.now),
            "unknown": list(self.doubts),
            "notes": list(self.notes),
        }
        if self.error:
            document["error"] = {"kind": self.error.kind, "message": self.error.message}
        return document

    def _gpu(self, load: Load) -> dict[str, object]:
        fed = (one.name for one in self.budget.supplies if load in one.loads)
        return {
            "address": load.address,
            "model": load.name,
            "watts": _watts(load.watts),
            "from": load.source.replace(" ", "_"),
            "watts_in_force": _watts(load.watts_now),
            "min": _watts(load.least_watts),
            "max": _watts(load.most_watts),
            "spike_factor": load.spike_factor,
            "peak_watts": None if load.watts is None else _watts(load.peak),
            "idle_watts": _watts(load.watts_idle),
            "psu": next(fed, None),
            "note": load.note,
        }

    def _wall(self) -> dict[str, object]:
        return {
            "efficiency": EFFICIENCY,
            "busy_watts": _watts(self.energy.busy_watts if self.energy else None),
            "idle_watts": _watts(self.energy.idle_watts if self.energy else None),
            "measured_watts": _watts(self.measured_watts),
            "measured": [
                {"ups": one.ups, "watts": _watts(one.watts), "lines": list(one.lines)}
                for one in self.measured
            ],
        }

    def _energy(self) -> dict[str, object]:
        values = ("kwh_per_day", "kwh_per_month", "cost_per_day", "cost_per_month")
        return {
            "duty_percent": self.duty_percent,
            "price_per_kwh": self.price,
            **{name: _rounded(getattr(self.energy, name, None)) for name in values},
        }


@dataclass(frozen=True)
class SharedCircuit:
    """A circuit with a name, and what hosts of the inventory draw from it."""

    circuit: Circuit
    shares: tuple[Share, ...]

    @property
    def wall(self) -> Wall:
        return Wall(circuit=self.circuit, own_watts=0.0, others=self.shares)

    @property
    def status(self) -> Status:
        if self.wall.is_over:
            return "fail"
        return "ok" if all(one.is_known for one in self.shares) else "unknown"

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.circuit.name,
            "status": self.status,
            "volts": self.circuit.volts,
            "amperes": self.circuit.amperes,
            "watts": _watts(self.wall.watts) if self.status != "unknown" else None,
            "allowed_watts": _watts(self.wall.allowed),
            "hosts": [
                {
                    "host": one.host,
                    "watts": _watts(one.watts) if one.is_known else None,
                    "from": "host" if one.is_reached else "inventory",
                }
                for one in self.shares
            ],
        }


def shared_circuits(
    reports: Iterable[PowerReport], shares: Iterable[Share]
) -> tuple[SharedCircuit, ...]:
    """Those of the reported hosts; `shares` are of all hosts."""
    every = tuple(shares)
    circuits = {
        circuit.name: circuit
        for report in reports
        for circuit in report.power.feeds.circuits or ()
        if circuit.name
    }
    return tuple(
        SharedCircuit(circuit, tuple(one for one in every if one.circuit == name))
        for name, circuit in circuits.items()
    )


def document(
    reports: Sequence[PowerReport], circuits: Sequence[SharedCircuit]
) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "status": worst(report.status for report in reports),
        "hosts": [report.as_json() for report in reports],
        "circuits": [one.as_json() for one in circuits],
    }


def worst(statuses: Iterable[Status]) -> Status:
    return min(statuses, key=WORST_FIRST.index, default="ok")


def exit_code(reports: Iterable[PowerReport]) -> int:
    return _EXIT_CODES.get(worst(report.status for report in reports), 0)


def _psu(supply: Supply) -> dict[str, object]:
    return {
        "name": supply.name,
        "rated_watts": _watts(supply.watts),
        "gpus": [load.address for load in supply.loads],
        "other_watts": _watts(supply.host_watts),
        "steady_watts": _watts(supply.steady),
        "steady_allowed": _watts(supply.watts * STEADY_SHARE),
        "peak_watts": _watts(supply.peak),
        "peak_allowed": _watts(supply.watts),
        "circuit": supply.circuit,
    }


def _circuit(wall: Wall) -> dict[str, object]:
    return {
        "name": wall.name or None,
        "volts": wall.circuit.volts,
        "amperes": wall.circuit.amperes,
        "watts": _watts(wall.own_watts),
        "others_watts": _watts(wall.others_watts),
        "allowed_watts": _watts(wall.allowed),
        "with": [one.host for one in wall.others],
    }


def _excesses(budget: Budget) -> list[dict[str, object]]:
    return [
        {
            "kind": one.kind,
            "where": one.where,
            "watts": _watts(one.watts),
            "allowed": _watts(one.allowed),
        }
        for one in budget.excesses
    ]


def _watts(watts: float | None) -> float | None:
    return None if watts is None else round(float(watts), 1)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
