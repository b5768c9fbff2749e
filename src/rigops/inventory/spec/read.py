"""From a host's flat data to a typed spec, with everything that is wrong in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rigops.errors import Problem
from rigops.inventory.spec.faults import Fault, RefusedError, shown
from rigops.inventory.spec.keys import RESERVED_PREFIXES
from rigops.inventory.spec.model import RigSpec
from rigops.inventory.spec.names import near_miss, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.inventory.spec.key import Key


def examine(
    data: Mapping[str, object], keys: Mapping[str, Key[Any]]
) -> tuple[RigSpec, list[Problem]]:
    declared: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in data.items():
        key = keys.get(name)
        if key is None:
            problems += _unknown(name, value, keys)
        elif value is not None:
            try:
                declared[name] = key.parse(value)
            except RefusedError as refused:
                problems += [_problem(name, key.accepted, fault) for fault in refused.faults]
    own = {name: declared.pop(name) for name in set(declared) - RigSpec.FIELDS}
    spec = RigSpec(**declared, others=own)
    return spec, problems + _contradictions(spec, keys)


def _unknown(name: str, value: object, keys: Mapping[str, Key[Any]]) -> list[Problem]:
    if name.startswith(("x_", "_")):
        return []
    meant = _meant(name, keys)
    if meant is None and not name.startswith(RESERVED_PREFIXES):
        return []
    if meant is None:
        meant = nearest(name, keys, cutoff=0)
    own = f"x_{name}"
    return [
        Problem(
            message="there is no such key",
            key=name,
            value=shown(value),
            accepted=keys[meant].accepted if meant else "",
            fix=f"did you mean {meant!r}? A key of your own: {own!r}",
        )
    ]


def _meant(name: str, keys: Mapping[str, Key[Any]]) -> str | None:
    for key in keys.values():
        if name.lower() in key.also_written:
            return key.name
    return near_miss(name, keys)


def _problem(name: str, accepted: str, fault: Fault) -> Problem:
    path = "".join(step if step.startswith("[") else f"[{step!r}]" for step in fault.path)
    return Problem(
        message=fault.message,
        key=name,
        within=path,
        value=fault.shown_value(),
        accepted=accepted,
        fix=fault.fix,
    )


def _contradictions(spec: RigSpec, keys: Mapping[str, Key[Any]]) -> list[Problem]:
    """What is wrong only when two keys are seen together."""
    named = {circuit.name for circuit in spec.circuits or ()}
    return [
        Problem(
            message=f"there is no circuit {psu.circuit!r}",
            key="psus",
            within=f"[{position}]['circuit']",
            value=shown(psu.circuit),
            accepted=keys["circuits"].accepted,
            fix=f'declare it: circuits = {{"{psu.circuit}": "120V/16A"}}',
        )
        for position, psu in enumerate(spec.psus or ())
        if psu.circuit is not None and psu.circuit not in named
    ]
