"""From a host's flat data to a typed spec and all problems; the keys of no concern."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rigops.errors import Problem
from rigops.inventory.spec.faults import RefusedError, has_long_number, shown
from rigops.inventory.spec.gpu import gpus
from rigops.inventory.spec.machine import CIRCUIT_EXAMPLE, circuits, psus
from rigops.inventory.spec.model import RigSpec
from rigops.inventory.spec.names import near_miss, nearest
from rigops.inventory.spec.scalars import Key, number, text, whole_number, word_key

_RESERVED_PREFIXES: Final = ("gpu_", "driver_", "kernel_", "thermal_", "cpu_")

GENERAL: Final[tuple[Key[Any], ...]] = (
    Key("gpus", '4, {"V100": 4} or a list of UUIDs', gpus),
    Key("psus", '[750, 750] or [{"watts": 750, "gpus": [ADDRESS, …], "host": True}]', psus),
    Key("circuits", CIRCUIT_EXAMPLE, circuits),
    Key("electricity_price", "the price of a kWh, such as 0.31", number(0, 100)),
    Key("other_watts", "watts", whole_number(0, 10000, " W")),
    word_key("p2p", "measure", "nvlink", "required", "skip"),
    word_key("gpu_containers", "protect", "refuse", "leave"),
    Key("reboot_timeout", "30 to 86400 seconds", whole_number(30, 86400, " s")),
    Key("rigops_vault", "a directory", text, stays_here=True),
    Key("catalog", "the path of a TOML file", text, ("catalogue",), stays_here=True),
)


def examine(
    data: Mapping[str, object], keys: Mapping[str, Key[Any]]
) -> tuple[RigSpec, list[Problem]]:
    declared: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in data.items():
        key = keys.get(name)
        if key is None:
            if problem := _unknown(name, value, keys):
                problems.append(problem)
        elif has_long_number(value):
            problems.append(
                Problem(
                    message="a number of more than 18 digits",
                    key=name,
                    accepted=key.accepted,
                    fix="write a smaller number",
                )
            )
        elif value is not None:
            try:
                declared[name] = key.parse(value)
            except RefusedError as refused:
                problems += [
                    Problem(
                        message=fault.message,
                        key=name,
                        within="".join(
                            step if step.startswith("[") else f"[{step!r}]" for step in fault.path
                        ),
                        value="(hidden)" if fault.secret else shown(fault.value),
                        accepted=key.accepted,
                        fix=fault.fix,
                    )
                    for fault in refused.faults
                ]
    own = {name: declared.pop(name) for name in set(declared) - RigSpec.FIELDS}
    spec = RigSpec(**declared, others=own)
    return spec, problems + _contradictions(spec, keys)


def _unknown(name: str, value: object, keys: Mapping[str, Key[Any]]) -> Problem | None:
    if name.startswith(("x_", "_")):
        return None
    synonyms = (key.name for key in keys.values() if name.lower() in key.also_written)
    meant = next(synonyms, None) or near_miss(name, keys)
    if meant is None and not name.startswith(_RESERVED_PREFIXES):
        return None
    if meant is None:
        meant = nearest(name, keys, cutoff=0)
    return Problem(
        message="unknown key",
        key=name,
        value=shown(value),
        accepted=keys[meant].accepted if meant else "",
        fix=f"write {meant!r}, or 'x_{name}' for a key of your own",
    )


def _contradictions(spec: RigSpec, keys: Mapping[str, Key[Any]]) -> list[Problem]:
    """Between two keys."""
    named = {circuit.name for circuit in spec.circuits or ()}
    return [
        Problem(
            message=f"unknown circuit {psu.circuit!r}",
            key="psus",
            within=f"[{position}]['circuit']",
            value=shown(psu.circuit),
            accepted=keys["circuits"].accepted,
            fix=f'declare it: "circuits": {{"{psu.circuit}": "120V/15A"}}',
        )
        for position, psu in enumerate(spec.psus or ())
        if psu.circuit is not None and psu.circuit not in named
    ]
