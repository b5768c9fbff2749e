"""Which of the values that an inventory gives by GPU is meant for a card."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from rigops.dataclass import dataclass
from rigops.inventory.spec.model import GpuSelector, PerGpu

T = TypeVar("T")


@dataclass(frozen=True)
class GpuIdentity:
    """`names`: all that its model goes by. `uuid`: None where it is not known."""

    address: str
    uuid: str | None
    names: tuple[str, ...]


@dataclass(frozen=True)
class Choice(Generic[T]):
    """No value: none is given for this card. `is_certain`: no closer selector can mean it.

    `equals`: other selectors that mean it just as closely.
    """

    value: T | None
    selector: GpuSelector | None
    is_certain: bool
    equals: tuple[GpuSelector, ...] = ()


def uuids_of(gpus: Iterable[GpuIdentity]) -> frozenset[str]:
    return frozenset(uuid for gpu in gpus if (uuid := _uuid(gpu)))


def choose(choices: PerGpu[T], gpu: GpuIdentity, uuids: frozenset[str]) -> Choice[T]:
    """By UUID, PCI address, exact model, the longest part of the model name, or the default.

    `uuids` are those of all cards of the host. Uncertain where UUIDs are given, but none is any
    card's (bundles are redacted) or this card does not report its own.
    """
    by_uuid = {s.text.lower() for s, _ in choices.choices if s.kind == "uuid"}
    uuid = _uuid(gpu)
    is_certain = not by_uuid or (uuid is not None and not uuids.isdisjoint(by_uuid))
    found = [
        (rank, value, selector)
        for selector, value in choices.choices
        for rank in [_closeness(selector, gpu)]
        if rank
    ]
    if not found:
        return Choice(None, None, is_certain)
    closest, value, selector = max(found, key=lambda one: one[0])
    equals = tuple(other for rank, _, other in found if rank == closest and other != selector)
    return Choice(value, selector, is_certain or uuid in by_uuid, equals)


def without_a_card(choices: PerGpu[T], gpus: Iterable[GpuIdentity]) -> tuple[GpuSelector, ...]:
    """The selectors that mean none of these cards."""
    every = tuple(gpus)
    return tuple(
        selector
        for selector, _ in choices.choices
        if not any(_closeness(selector, gpu) for gpu in every)
    )


def declaration(choices: PerGpu[T], written: Callable[[T], object]) -> object:
    """The whole value as in an inventory."""
    if [selector.kind for selector, _ in choices.choices] == ["default"]:
        return written(choices.choices[0][1])
    return {selector.text: written(value) for selector, value in choices.choices}


def _uuid(gpu: GpuIdentity) -> str | None:
    return gpu.uuid.lower() if gpu.uuid else None


def _closeness(selector: GpuSelector, gpu: GpuIdentity) -> tuple[int, int] | None:
    """Greater is closer; None where another card is meant."""
    if selector.kind == "default":
        return (1, 0)
    if selector.kind == "address":
        return (4, 0) if selector.text == gpu.address else None
    if selector.kind == "uuid":
        return (5, 0) if selector.text.lower() == _uuid(gpu) else None
    wanted = _plain(selector.text)
    names = [_plain(name) for name in gpu.names]
    if wanted in names:
        return (3, len(wanted))
    return (2, len(wanted)) if any(wanted in name for name in names) else None


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name.lower().replace("nvidia", ""))
