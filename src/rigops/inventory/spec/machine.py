"""The keys of the machine around the GPUs: kernel, CPU, limits, NCCL, power supplies."""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatchcase

from rigops.inventory.spec.faults import Collector, refuse
from rigops.inventory.spec.gpu import address
from rigops.inventory.spec.model import Circuit, Limits, Psu, ThermalLimit
from rigops.inventory.spec.scalars import (
    boolean,
    check_names,
    list_of,
    mapping,
    number,
    size,
    size_or_percent,
    text,
    whole_number,
)

_ARGUMENT = re.compile(r"[A-Za-z0-9_.,:=/+@%-]+")
_MODULE = re.compile(r"[A-Za-z0-9_-]+")
_OPTION_NAME = re.compile(r"[A-Za-z0-9_]+")
_OPTION_VALUE = re.compile(r"[A-Za-z0-9_.,:;=/+@%-]*")
_FREQUENCY = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(GHz|MHz|kHz)", re.IGNORECASE)
_KHZ = {"ghz": 1_000_000, "mhz": 1_000, "khz": 1}
_LEAST_KHZ, _MOST_KHZ = 400_000, 10_000_000
_NCCL = re.compile(r"NCCL_[A-Z0-9_]+")
_CIRCUIT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?V ?/ ?([0-9]+(?:\.[0-9]+)?) ?A", re.IGNORECASE)
_VOLTS = (100, 480)
_AMPERES = (1, 125)
_PSU_WATTS = whole_number(100, 4000, " W")

CIRCUIT_EXAMPLE = '"120V/15A" or {"A": "120V/15A"}'
THERMAL_EXAMPLE = '{"gpu": 83, "memory": 100, "margin": 5}'

_SET_ELSEWHERE = {
    "root": "/etc/fstab and the bootloader's own configuration",
    "ro": "the bootloader's own configuration",
    "rw": "the bootloader's own configuration",
    "init": "the bootloader's own configuration",
    "resume": "/etc/initramfs-tools/conf.d/resume or /etc/fstab",
    "rd.luks*": "/etc/crypttab",
}

ModuleOptions = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


def kernel_argument(value: object) -> str:
    argument = text(value)
    if _ARGUMENT.fullmatch(argument):
        _refuse_anothers(argument, value)
        return argument
    if " " in argument and all(_ARGUMENT.fullmatch(part) for part in argument.split()):
        refuse(
            "several arguments in one string",
            value,
            fix=f"write {', '.join(repr(part) for part in argument.split())}",
        )
    refuse(
        "an argument may contain only letters, digits and _.,:=/+@%- (root's shell reads the file)",
        value,
        fix="leave out quotes, spaces, dollar signs and semicolons",
    )


def _refuse_anothers(argument: str, value: object) -> None:
    """Arguments that the installation sets, and where; two would leave no root."""
    name = argument.partition("=")[0]
    for pattern, place in _SET_ELSEWHERE.items():
        if fnmatchcase(name, pattern):
            refuse(
                f"{name} is set by this machine's bootloader or initramfs",
                value,
                fix=f"change {place} there",
            )
    if argument == "iommu=passthrough":
        refuse("no such value of iommu exists", value, fix='write "iommu=pt"')


def module_options(value: object) -> ModuleOptions:
    example = '{"nvidia": {"NVreg_EnableGpuFirmware": 0}}'
    data = mapping(value, noun="modules and their options", example=example)
    found = Collector()
    modules = []
    for module, options in data.items():
        if not _MODULE.fullmatch(module):
            found.refuse("not a module name", options, module, fix=f"write {example}")
            continue
        parsed: tuple[tuple[str, str], ...] = found.check(_options, options, module, ())
        modules.append((module, parsed))
    return found.finish(tuple(modules))


def _options(value: object) -> tuple[tuple[str, str], ...]:
    if isinstance(value, str):
        value = value.split()
    if isinstance(value, (list, tuple)):
        value = dict(_split_option(item) for item in value)
    data = mapping(value, noun="options and values", example='{"NVreg_EnableGpuFirmware": 0}')
    if not data:
        refuse("no option", value)
    found = Collector()
    for name in data:
        if not _OPTION_NAME.fullmatch(name):
            found.refuse("not an option name", data[name], name)
    options = tuple((name, found.check(_option_value, data[name], name, "")) for name in data)
    return found.finish(options)


def _split_option(item: object) -> tuple[str, object]:
    name, equals, given = text(item).partition("=")
    if not equals:
        refuse("an option without a value", item, fix=f'write "{name}=1"')
    return name, given


def _option_value(value: object) -> str:
    if isinstance(value, int):  # also True and False, as 1 and 0
        return str(int(value))
    if isinstance(value, str) and _OPTION_VALUE.fullmatch(value):
        return value
    refuse("not a number or a word without spaces and quotes", value)


def cpu_max_freq(value: object) -> int:
    matched = _FREQUENCY.fullmatch(value) if isinstance(value, str) else None
    if not matched:
        refuse("not a frequency with its unit", value, fix='write it as "3.2GHz"')
    khz = round(float(matched[1]) * _KHZ[matched[2].lower()])
    if not _LEAST_KHZ <= khz <= _MOST_KHZ:
        refuse(f"{value} is outside 0.4 to 10 GHz", value)
    return khz


def thermal_limit(value: object) -> ThermalLimit:
    celsius = number(40, 120, " °C")
    if not isinstance(value, dict):
        return ThermalLimit(gpu_celsius=celsius(value))
    data = mapping(value, noun="temperatures", example=THERMAL_EXAMPLE)
    found = Collector()
    check_names(found, data, ("gpu", "memory", "margin"))
    limit = ThermalLimit(
        gpu_celsius=found.take(celsius, data, "gpu", None),
        memory_celsius=found.take(celsius, data, "memory", None),
        margin_celsius=found.take(number(1, 60, " °C"), data, "margin", None),
    )
    if not data:
        refuse("names no temperature", value, fix=f"write {THERMAL_EXAMPLE}")
    return found.finish(limit)


def limits(value: object) -> Limits:
    example = '{"shm": "64G", "memlock": "unlimited", "nofile": 1048576, "removeipc": False}'
    data = mapping(value, noun="limits", example=example)
    found = Collector()
    check_names(found, data, ("shm", "memlock", "nofile", "removeipc"))
    return found.finish(
        Limits(
            shm=found.take(size_or_percent, data, "shm", None),
            memlock=found.take(
                lambda v: "unlimited" if v == "unlimited" else size(v), data, "memlock", None
            ),
            nofile=found.take(whole_number(1024, 1 << 30), data, "nofile", None),
            removeipc=found.take(boolean, data, "removeipc", None),
        )
    )


def nccl(value: object) -> tuple[tuple[str, str], ...]:
    data = mapping(value, noun="NCCL variables", example='{"NCCL_P2P_LEVEL": "SYS"}')
    found = Collector()
    for name in data:
        if not _NCCL.fullmatch(name):
            fix = "write a name that begins with NCCL_"
            found.refuse("not an NCCL variable", data[name], name, fix=fix)
    lines = tuple((name, found.check(_nccl_value, data[name], name, "")) for name in data)
    return found.finish(lines)


def _nccl_value(value: object) -> str:
    if isinstance(value, int):  # also True and False, as 1 and 0
        return str(int(value))
    line = text(value)
    if "#" in line:
        refuse("nccl.conf ignores text after a #", value)
    return line


def psus(value: object) -> tuple[Psu, ...]:
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        refuse("not a list of power supplies", value, fix="write [750, 750]")
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
    refuse("not a PCI address", value, fix='write it as "0000:0a:00.0"')


def circuits(value: object) -> tuple[Circuit, ...]:
    if isinstance(value, str):
        return (_circuit(value),)
    data = mapping(value, noun="circuits", example='{"A": "120V/15A"}')
    found = Collector()
    named = tuple(
        replace(found.check(_circuit, given, name, Circuit("", 0, 0)), name=name)
        for name, given in data.items()
    )
    return found.finish(named)


def _circuit(value: object) -> Circuit:
    matched = _CIRCUIT.fullmatch(value) if isinstance(value, str) else None
    if not matched:
        refuse("not a circuit", value, fix=f"write {CIRCUIT_EXAMPLE}")
    volts, amperes = float(matched[1]), float(matched[2])
    if not _VOLTS[0] <= volts <= _VOLTS[1]:
        refuse(f"{volts:g} V is outside {_VOLTS[0]} to {_VOLTS[1]} V", value)
    if not _AMPERES[0] <= amperes <= _AMPERES[1]:
        refuse(f"{amperes:g} A is outside {_AMPERES[0]} to {_AMPERES[1]} A", value)
    return Circuit("", volts, amperes)
