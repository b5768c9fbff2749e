"""The GPU keys: which cards belong here, their power and their clocks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from rigops.inventory.spec.faults import Collector, refuse
from rigops.inventory.spec.model import Clocks, ExpectedGpus, GpuSelector, PerGpu, PowerLimit
from rigops.inventory.spec.scalars import list_of, mapping, percent, text, whole_number

T = TypeVar("T")

_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_INDEX = re.compile(r"[0-9]{1,2}")
_ADDRESS = re.compile(
    r"(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<rest>[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE
)
_WATTS = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?[wW]")
_CLOCK = re.compile(r"(graphics|memory|application)=([0-9]{1,9})(?:,([0-9]{1,9}))?")
_MOST_GPUS = 64
_MOST_WATTS = 2000
_LEAST_MHZ, _MOST_MHZ = 100, 20000

CLOCKS_EXAMPLE = '"graphics=210,1410" or "application=877,1005"'


def gpus(value: object) -> ExpectedGpus:
    if isinstance(value, dict):
        counts = mapping(value, noun="models and counts", example='{"V100": 4}')
        found = Collector()
        models = tuple(
            (text(model), found.check(whole_number(1, _MOST_GPUS), count, model, 1))
            for model, count in counts.items()
        )
        return found.finish(ExpectedGpus(models=models))
    if isinstance(value, (list, tuple)):
        return ExpectedGpus(uuids=list_of(_uuid, noun="GPU UUIDs")(value))
    if isinstance(value, bool) or not isinstance(value, int):
        refuse("not a number of GPUs, a dict of models or a list of UUIDs", value)
    return ExpectedGpus(total=whole_number(0, _MOST_GPUS)(value))


def _uuid(value: object) -> str:
    if isinstance(value, str) and _UUID.fullmatch(value):
        return "GPU-" + value[4:].lower()
    refuse("not a GPU UUID", value, fix="run `nvidia-smi -L` to list them: GPU-…")


def address(value: str) -> str | None:
    """A PCI address as the kernel writes it, or None."""
    matched = _ADDRESS.fullmatch(value)
    if not matched:
        return None
    domain = int(matched["domain"] or "0", 16)
    return f"{domain:04x}:{matched['rest'].lower()}"


def per_gpu(parse: Callable[[object], T], example: str) -> Callable[[object], PerGpu[T]]:
    def parse_choices(value: object) -> PerGpu[T]:
        if not isinstance(value, dict):
            return PerGpu(((GpuSelector("default", "default"), parse(value)),))
        if not value:
            refuse("names no GPU", value, fix=f"write {example}")
        found = Collector()
        choices: list[tuple[GpuSelector, T]] = []
        for name, given in value.items():
            chosen = found.check(_selector, name, str(name), GpuSelector("default", ""))
            before = len(found.faults)
            parsed = found.check(parse, given, str(name), given)
            if len(found.faults) == before:
                if chosen in [selector for selector, _ in choices]:
                    found.refuse("two entries name the same GPU", given, str(name))
                choices.append((chosen, parsed))
        return found.finish(PerGpu(tuple(choices)))

    return parse_choices


def _selector(name: object) -> GpuSelector:
    if not isinstance(name, str) or _INDEX.fullmatch(name):
        refuse(
            "GPU numbers change when a card is added or lost",
            name,
            fix='name it by UUID, PCI address, model or "default"',
        )
    if name == "default":
        return GpuSelector("default", name)
    if name[:4].upper() == "GPU-":
        return GpuSelector("uuid", _uuid(name))
    found = address(name)
    if found:
        return GpuSelector("address", found)
    return GpuSelector("model", text(name))


def power_limit(value: object) -> PowerLimit:
    if isinstance(value, str):
        matched = _WATTS.fullmatch(value)
        if matched:
            return PowerLimit(watts=_watts(float(matched[1]), value))
        if value.endswith("%"):
            return PowerLimit(percent=percent(value))
        refuse("not a power limit", value, fix='write 285, "285W" or "80%"')
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        refuse("not a power limit", value, fix='write 285, "285W" or "80%"')
    return PowerLimit(watts=_watts(float(value), value))


def _watts(watts: float, value: object) -> float:
    if not 0 < watts <= _MOST_WATTS:
        refuse(f"{watts:g} W is outside 1 to {_MOST_WATTS} W", value)
    return watts


def written_limit(limit: PowerLimit) -> object:
    """As in an inventory."""
    if limit.watts is None:
        return f"{limit.percent:g}%"
    return int(limit.watts) if limit.watts == int(limit.watts) else limit.watts


def clocks(value: object) -> Clocks:
    if not isinstance(value, str) or not value.strip():
        refuse("not a clock setting", value, fix=f"write {CLOCKS_EXAMPLE}")
    found: dict[str, tuple[int, int]] = {}
    for part in value.split():
        matched = _CLOCK.fullmatch(part)
        if not matched:
            refuse(f"{part!r} is not a clock setting", value, fix=f"write {CLOCKS_EXAMPLE}")
        name, low, high = matched[1], int(matched[2]), int(matched[3] or matched[2])
        if name in found:
            refuse(f"{name} is set twice", value)
        _check_range(name, low, high, value, paired=bool(matched[3]))
        found[name] = (low, high)
    if "application" in found and len(found) > 1:
        refuse(
            "application clocks and locked clocks exclude each other",
            value,
            fix="keep graphics= and memory=, or application= alone",
        )
    return Clocks(found.get("graphics"), found.get("memory"), found.get("application"))


def _check_range(name: str, low: int, high: int, value: object, *, paired: bool) -> None:
    for clock in (low, high):
        if not _LEAST_MHZ <= clock <= _MOST_MHZ:
            refuse(f"{clock} MHz is outside {_LEAST_MHZ} to {_MOST_MHZ} MHz", value)
    if name == "application" and not paired:
        refuse(
            "application clocks need two values: memory, graphics",
            value,
            fix='write "application=877,1005"',
        )
    if name != "application" and low > high:
        refuse(
            f"{name}: the minimum is above the maximum", value, fix=f'write "{name}={high},{low}"'
        )
