"""The keys of the machine around the GPUs: kernel, modules, CPU, temperature, limits, NCCL."""

from __future__ import annotations

import re

from rigops.inventory.spec.faults import Collector, refuse
from rigops.inventory.spec.model import Limits, ThermalLimit
from rigops.inventory.spec.scalars import (
    boolean,
    check_names,
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
_FREQUENCY = re.compile(r"(\d+(?:\.\d+)?) ?(GHz|MHz|kHz)", re.IGNORECASE)
_KHZ = {"ghz": 1_000_000, "mhz": 1_000, "khz": 1}
_LEAST_KHZ, _MOST_KHZ = 400_000, 10_000_000
_NCCL = re.compile(r"NCCL_[A-Z0-9_]+")

ModuleOptions = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


def kernel_argument(value: object) -> str:
    argument = text(value)
    if _ARGUMENT.fullmatch(argument):
        return argument
    if " " in argument and all(_ARGUMENT.fullmatch(part) for part in argument.split()):
        refuse(
            "this is several arguments in one text",
            value,
            fix=f"write {', '.join(repr(part) for part in argument.split())}",
        )
    refuse(
        "root's shell reads this file, so an argument has only letters, digits and _.,:=/+@%-",
        value,
        fix="leave out quotes, spaces, dollar signs and semicolons",
    )


def module_options(value: object) -> ModuleOptions:
    example = '{"nvidia": {"NVreg_EnableGpuFirmware": 0}}'
    data = mapping(value, noun="modules and their options", example=example)
    found = Collector()
    modules = []
    for module, options in data.items():
        if not _MODULE.fullmatch(module):
            found.refuse("this is not a module name", options, module, fix=f"write {example}")
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
        refuse("this module has no option", value)
    found = Collector()
    options = []
    for name, given in data.items():
        if not _OPTION_NAME.fullmatch(name):
            found.refuse("this is not an option name", given, name)
        options.append((name, found.check(_option_value, given, name, "")))
    return found.finish(tuple(options))


def _split_option(item: object) -> tuple[str, object]:
    name, equals, given = text(item).partition("=")
    if not equals:
        refuse("an option has a value", item, fix=f'write "{name}=1"')
    return name, given


def _option_value(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str) and _OPTION_VALUE.fullmatch(value):
        return value
    refuse("an option's value is a number or a word without spaces and quotes", value)


def cpu_max_freq(value: object) -> int:
    matched = _FREQUENCY.fullmatch(value) if isinstance(value, str) else None
    if not matched:
        refuse("this is not a frequency with its unit", value, fix='write it as "3.2GHz"')
    khz = round(float(matched[1]) * _KHZ[matched[2].lower()])
    if not _LEAST_KHZ <= khz <= _MOST_KHZ:
        refuse(f"{value} is outside 0.4 to 10 GHz", value)
    return khz


def thermal_limit(value: object) -> ThermalLimit:
    celsius = number(40, 120, " °C")
    if not isinstance(value, dict):
        return ThermalLimit(gpu_celsius=celsius(value))
    data = mapping(value, noun="temperatures", example='{"gpu": 83, "memory": 100}')
    found = Collector()
    check_names(found, data, ("gpu", "memory"))
    limit = ThermalLimit(
        found.take(celsius, data, "gpu", None), found.take(celsius, data, "memory", None)
    )
    if not data:
        refuse("this names no temperature", value, fix='write {"gpu": 83, "memory": 100}')
    return found.finish(limit)


def limits(value: object) -> Limits:
    example = '{"shm": "64G", "memlock": "unlimited", "nofile": 1048576, "removeipc": False}'
    data = mapping(value, noun="limits", example=example)
    found = Collector()
    check_names(found, data, ("shm", "memlock", "nofile", "removeipc"))
    return found.finish(
        Limits(
            shm=found.take(size_or_percent, data, "shm", None),
            memlock=found.take(_memlock, data, "memlock", None),
            nofile=found.take(whole_number(1024, 1 << 30), data, "nofile", None),
            removeipc=found.take(boolean, data, "removeipc", None),
        )
    )


def _memlock(value: object) -> str:
    return value if value == "unlimited" and isinstance(value, str) else size(value)


def nccl(value: object) -> tuple[tuple[str, str], ...]:
    data = mapping(value, noun="NCCL variables", example='{"NCCL_P2P_LEVEL": "SYS"}')
    found = Collector()
    lines = []
    for name, given in data.items():
        if not _NCCL.fullmatch(name):
            found.refuse(
                "this is not a NCCL variable", given, name, fix="its name begins with NCCL_"
            )
        lines.append((name, found.check(_nccl_value, given, name, "")))
    return found.finish(tuple(lines))


def _nccl_value(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int):
        return str(value)
    line = text(value)
    if "#" in line:
        refuse("nccl.conf takes the rest of the line after # for a comment", value)
    return line
