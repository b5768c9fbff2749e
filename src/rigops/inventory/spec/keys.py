"""Keys that no concern acts on: they describe the rig and guide what concerns and checks do."""

from __future__ import annotations

from typing import Any, Final

from rigops.inventory.spec.gpu import gpus
from rigops.inventory.spec.key import Key, words
from rigops.inventory.spec.scalars import choice, number, text, whole_number
from rigops.inventory.spec.supply import CIRCUIT_EXAMPLE, circuits, psus

RESERVED_PREFIXES: Final = ("gpu_", "driver_", "kernel_", "thermal_", "cpu_")

GENERAL: Final[tuple[Key[Any], ...]] = (
    Key("gpus", '4, {"V100": 4} or a list of UUIDs', gpus),
    Key("psus", '[750, 750] or [{"watts": 750, "gpus": [ADDRESS, …], "host": True}]', psus),
    Key("circuits", CIRCUIT_EXAMPLE, circuits),
    Key("electricity_price", "the price of a kWh, such as 0.31", number(0, 100)),
    Key("other_watts", "watts", whole_number(0, 10000, " W")),
    Key(
        "p2p",
        words("measure", "nvlink", "required", "skip"),
        choice("measure", "nvlink", "required", "skip"),
    ),
    Key("reboot_timeout", "30 to 86400 seconds", whole_number(30, 86400, " s")),
    Key("rigops_vault", "a directory", text),
    Key("catalog", "the path of a TOML file", text, ("catalogue",)),
)
