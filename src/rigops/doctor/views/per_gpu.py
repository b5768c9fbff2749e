"""Which of the values that an inventory gives by GPU is meant for a card."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from rigops.dataclass import dataclass

if TYPE_CHECKING:
    from rigops.doctor.views.cards import Card
    from rigops.inventory.spec.model import GpuSelector, PerGpu

T = TypeVar("T")


@dataclass(frozen=True)
class Choice(Generic[T]):
    """No value: none is given for this card. `is_certain`: no closer selector can mean it."""

    value: T | None
    selector: GpuSelector | None
    is_certain: bool


def choose(choices: PerGpu[T], card: Card, cards: Iterable[Card]) -> Choice[T]:
    """By UUID, PCI address, exact model, the longest part of the model name, or the default.

    Uncertain where UUIDs are given, but none is any card's (bundles are redacted) or this card
    does not report its own.
    """
    by_uuid = {s.text.lower(): (value, s) for s, value in choices.choices if s.kind == "uuid"}
    uuid = _uuid(card)
    if uuid in by_uuid:
        return Choice(*by_uuid[uuid], is_certain=True)
    known = {_uuid(one) for one in cards}
    is_certain = not by_uuid or (uuid is not None and not known.isdisjoint(by_uuid))
    found = [
        (rank, value, selector)
        for selector, value in choices.choices
        for rank in [_closeness(selector, card)]
        if rank
    ]
    if not found:
        return Choice(None, None, is_certain)
    _, value, selector = max(found, key=lambda one: one[0])
    return Choice(value, selector, is_certain)


def declaration(choices: PerGpu[T], written: Callable[[T], object]) -> object:
    """The whole value as in an inventory."""
    if [selector.kind for selector, _ in choices.choices] == ["default"]:
        return written(choices.choices[0][1])
    return {selector.text: written(value) for selector, value in choices.choices}


def _uuid(card: Card) -> str | None:
    return card.smi.uuid.lower() if card.smi and card.smi.uuid else None


def _closeness(selector: GpuSelector, card: Card) -> tuple[int, int] | None:
    """Greater is closer; None where another card is meant."""
    if selector.kind == "default":
        return (1, 0)
    if selector.kind == "address":
        return (4, 0) if selector.text == card.address else None
    if selector.kind == "uuid":
        return None
    wanted = _plain(selector.text)
    known = [card.model.name, *card.model.aliases] if card.model else []
    names = [_plain(name) for name in (*known, card.smi and card.smi.name, card.name) if name]
    if wanted in names:
        return (3, len(wanted))
    return (2, len(wanted)) if any(wanted in name for name in names) else None


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name.lower().replace("nvidia", ""))
