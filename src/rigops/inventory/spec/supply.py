"""The keys of the power budget: power supplies, circuits and their cost."""

from __future__ import annotations

import re
from dataclasses import replace

from rigops.inventory.spec.faults import Collector, refuse
from rigops.inventory.spec.gpu import address
from rigops.inventory.spec.model import Circuit, Psu
from rigops.inventory.spec.scalars import boolean, check_names, list_of, mapping, text, whole_number

_CIRCUIT = re.compile(r"(\d+(?:\.\d+)?) ?V ?/ ?(\d+(?:\.\d+)?) ?A", re.IGNORECASE)
_VOLTS = (100, 480)
_AMPERES = (1, 125)
_PSU_WATTS = whole_number(100, 4000, " W")

CIRCUIT_EXAMPLE = '"120V/16A" or {"A": "120V/16A"}'


def psus(value: object) -> tuple[Psu, ...]:
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        refuse("this is not a list of power supplies", value, fix="write [750, 750]")
    found = Collector()
    supplies = tuple(found.check(_psu, item, f"[{i}]", Psu(0)) for i, item in enumerate(value))
    fed: set[str] = set()
    for position, supply in enumerate(supplies):
        for card in supply.gpus:
            if card in fed:
                found.refuse("two power supplies feed this GPU", card, f"[{position}]")
            fed.add(card)
    return found.finish(supplies)


def _psu(value: object) -> Psu:
    if not isinstance(value, dict):
        return Psu(_PSU_WATTS(value))
    data = mapping(value, noun="a power supply's properties", example='{"watts": 750}')
    found = Collector()
    check_names(found, data, ("watts", "count", "gpus", "host", "circuit"))
    if data.get("watts") is None:
        found.refuse("watts is missing", value, "watts", fix='write {"watts": 750, …}')
    return found.finish(
        Psu(
            watts=found.take(_PSU_WATTS, data, "watts", 0),
            count=found.take(whole_number(1, 8), data, "count", 1),
            gpus=found.take(list_of(_card, noun="PCI addresses"), data, "gpus", ()),
            host=found.take(boolean, data, "host", default=False),
            circuit=found.take(text, data, "circuit", None),
        )
    )


def _card(value: object) -> str:
    found = address(value) if isinstance(value, str) else None
    if found:
        return found
    refuse("this is not a PCI address", value, fix='write it as "0000:0a:00.0"')


def circuits(value: object) -> tuple[Circuit, ...]:
    if isinstance(value, str):
        return (_circuit(value),)
    data = mapping(value, noun="circuits", example='{"A": "120V/16A"}')
    found = Collector()
    named = tuple(
        replace(found.check(_circuit, given, name, Circuit("", 0, 0)), name=name)
        for name, given in data.items()
    )
    return found.finish(named)


def _circuit(value: object) -> Circuit:
    matched = _CIRCUIT.fullmatch(value) if isinstance(value, str) else None
    if not matched:
        refuse("this is not a circuit", value, fix=f"write {CIRCUIT_EXAMPLE}")
    volts, amperes = float(matched[1]), float(matched[2])
    if not _VOLTS[0] <= volts <= _VOLTS[1]:
        refuse(f"{volts:g} V is outside {_VOLTS[0]} to {_VOLTS[1]} V", value)
    if not _AMPERES[0] <= amperes <= _AMPERES[1]:
        refuse(f"{amperes:g} A is outside {_AMPERES[0]} to {_AMPERES[1]} A", value)
    return Circuit("", volts, amperes)
