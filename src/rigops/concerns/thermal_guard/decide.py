"""The limits that the guard watches, and declarations that the cards cannot meet. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rigops.probe.smi.report import SmiGpu, SmiReport

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec
    from rigops.inventory.spec.model import ThermalAction, ThermalLimit

UNIT: Final = "rigops-thermal-guard.service"
DEFAULT_HOLD_S: Final = 30
DEFAULT_STEP: Final[ThermalAction] = "lower-power"
_OLDEST_PYTHON: Final = (3, 8)
_LEAST_THRESHOLD: Final = 50.0  # below, it is a distance to the limit and no temperature
_UNITS: Final = {  # of the settings
    "gpu": " °C", "memory": " °C", "margin": " °C", "hold": " s", "action": "", "sensor-loss": "",
}  # fmt: skip
_GRAVE: Final = frozenset({"stop-jobs", "poweroff"})


def settings(spec: RigSpec) -> tuple[str, ...]:
    """The lines of the file that the program on the host reads."""
    limit = spec.thermal_limit
    degrees = {
        "gpu": limit.gpu_celsius if limit else None,
        "memory": limit.memory_celsius if limit else None,
        "margin": limit.margin_celsius if limit else None,
    }
    return (
        *(f"{name} {value:g}" for name, value in degrees.items() if value is not None),
        f"hold {spec.thermal_hold or DEFAULT_HOLD_S}",
        f"action {spec.thermal_action or DEFAULT_STEP}",
        f"sensor-loss {spec.thermal_sensor_loss or DEFAULT_STEP}",
    )


def headline(spec: RigSpec, before: str) -> str:
    """`before`: the file as it is; of one that says something else, what changes."""
    pairs = (line.partition(" ")[::2] for line in before.splitlines())
    known = {name: value for name, value in pairs if name in _UNITS}
    found = dict(line.split(" ", 1) for line in settings(spec))
    changed = [name for name in found if known and known.get(name) != found[name]]
    parts = [
        f"{name} {known[name]} -> {found[name]}{_UNITS[name]}"
        if name in known and name in changed
        else f"{name} {found[name]}{_UNITS[name]}"
        for name in changed or list(found)[:1]
    ]
    return f"thermal guard: {', '.join(parts)}"


def blockers(spec: RigSpec, python: tuple[int, ...], report: SmiReport) -> Iterator[str]:
    limit = spec.thermal_limit
    if limit is None:
        yield (
            'the other thermal_ keys need a temperature. fix: declare "thermal_limit": 83, or drop '
            "them"
        )
        return
    if python < _OLDEST_PYTHON:
        found = f"python3 is {'.'.join(map(str, python))}" if python else "there is no python3"
        yield f"{found}, and the guard needs 3.8 or newer. fix: apt-get install python3"
    yield from unwatchable(limit, report)


def unwatchable(limit: ThermalLimit, report: SmiReport) -> Iterator[str]:
    """What is declared of temperatures that the cards do not report."""
    if limit.margin_celsius is not None:
        without = [one for one in answering(report) if one.celsius_left is None]
        if without:
            yield (
                f'thermal_limit "margin": {named(without)} reports no T.Limit margin. fix: declare '
                '"gpu" instead'
            )
    watched = (limit.gpu_celsius, limit.margin_celsius)
    if watched == (None, None):
        without = [one for one in answering(report) if one.memory_celsius is None]
        if without:
            yield (
                f'thermal_limit "memory": {named(without)} reports no temperature of its memory, '
                'so nothing would be watched. fix: declare "gpu" as well'
            )


def notices(spec: RigSpec, report: SmiReport) -> Iterator[str]:
    """Notes on the guard's limits and steps."""
    limit, cards = spec.thermal_limit, answering(report)
    if limit is None:
        return
    if not cards:
        yield "no NVIDIA driver answers yet: the guard waits until one does"
    if limit.gpu_celsius is not None:
        yield from _too_late(limit.gpu_celsius, cards)
    if limit.memory_celsius is not None:
        without = [one for one in cards if one.memory_celsius is None]
        if without:
            yield (
                f'thermal_limit "memory": {named(without)} reports no temperature of its memory, '
                "as GeForce cards do not: only the others are watched for it"
            )
    fixed = [one for one in cards if one.watts_requested is None and one.watts_limit is None]
    if fixed and spec.thermal_action != "notify":
        yield f"{named(fixed)} takes no power limit: lower-power does nothing there"
    if spec.notify is None:
        yield "notify is not declared: what the guard does is in the journal only"
    if spec.thermal_sensor_loss in _GRAVE:
        yield (
            f'thermal_sensor_loss = "{spec.thermal_sensor_loss}": an update of the driver that '
            "takes longer than three holds can bring it about, if rigops does not make it"
        )


def _too_late(celsius: float, cards: Sequence[SmiGpu]) -> Iterator[str]:
    late = [
        one
        for one in cards
        if one.celsius_slowdown is not None and _LEAST_THRESHOLD <= one.celsius_slowdown <= celsius
    ]
    if late:
        lowest = min(one.celsius_slowdown or celsius for one in late)
        yield (
            f"thermal_limit = {celsius:g}: {named(late)} slows down by itself from {lowest:g} °C "
            "on, and is hardly ever above it. Declare less"
        )


def answering(report: SmiReport) -> tuple[SmiGpu, ...]:
    return () if report.failure else tuple(one for one in report.gpus if one.address)


def named(cards: Sequence[SmiGpu]) -> str:
    addresses = [one.address or "" for one in cards]
    if len(addresses) > 1:
        return f"each of GPUs {', '.join(addresses)}"
    return f"GPU {addresses[0]} ({cards[0].name or 'unknown model'})"
