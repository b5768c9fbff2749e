"""The facts of models.toml."""

import sys
from importlib import import_module
from typing import Any, NamedTuple

from . import paths

# Hosts have 3.11; the machine that tries this without one may be older.
_TOML = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


class Watts(NamedTuple):
    default: int
    min: int
    max: int
    idle: int


class Clocks(NamedTuple):
    graphics: int
    memory: int
    video: int
    idle_graphics: int
    idle_memory: int
    idle_video: int
    low: int


class Pair(NamedTuple):
    memory: int
    graphics: int


class Temperature(NamedTuple):
    """Degrees; None where the card does not say. limit: distance to the limit, on cards with it."""

    idle: int
    limit: int | None = None
    shutdown: int | None = None
    slowdown: int | None = None
    max: int | None = None
    target: int | None = None
    memory: int | None = None
    memory_max: int | None = None


class Model(NamedTuple):
    name: str
    product: str
    brand: str
    architecture: str
    device: str
    subsystem: str
    revision: str
    part: str
    capability: str
    memory_mib: int
    reserved_mib: int
    bar1_mib: int
    generation: int
    watts: Watts
    clocks: Clocks
    temperature: Temperature
    graphics_steps: int
    memory_clocks: tuple[int, ...]
    applications: Pair | None = None
    pci_class: str = "030000"
    fan: bool = False
    audio: str = ""
    ecc: str = ""
    remapper: int = 0
    retired_pages: bool = False
    serial: bool = False
    idle_state: str = "P8"
    nvlinks: int = 0
    nvlink_rate: float = 0.0
    false_grant: tuple[str, ...] = ()
    transient_limit_mhz: int = 0
    transient_cards: int = 0
    modern: bool = False
    locked_memory: bool = False

    @property
    def memory_bytes(self) -> int:
        return self.memory_mib << 20

    def graphics_clocks(self, memory_clock: int) -> list[int]:
        """Supported graphics clocks, highest first, as the driver lists them."""
        idle = memory_clock <= self.clocks.idle_memory < self.clocks.memory
        highest = min(self.clocks.graphics, 645 if idle else self.clocks.graphics) * 10
        lowest = self.clocks.low * 10
        count = (highest - lowest) // self.graphics_steps + 1
        return [(highest - step * self.graphics_steps) // 10 for step in range(count)]


def _model(name: str, facts: dict[str, Any]) -> Model:
    plain = dict(facts)
    plain.pop("aliases", None)
    if "class" in plain:
        plain["pci_class"] = plain.pop("class")
    plain["watts"] = Watts(**plain["watts"])
    plain["clocks"] = Clocks(**plain["clocks"])
    plain["temperature"] = Temperature(**plain["temperature"])
    if "applications" in plain:
        plain["applications"] = Pair(**plain["applications"])
    for key in ("memory_clocks", "false_grant"):
        plain[key] = tuple(plain.get(key, ()))
    return Model(name=name, **plain)


def load() -> dict[str, Model]:
    """Models by every name that a rig may use for them."""
    with (paths.INSTALLED / "models.toml").open("rb") as file:
        tables = _TOML.load(file)
    models = {}
    for name, facts in tables.items():
        model = _model(name, facts)
        for key in (name, model.product, *facts.get("aliases", ())):
            models[key] = model
    return models
