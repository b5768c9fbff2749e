"""Which of the declared cards are missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.catalog import find_gpu
from rigops.doctor import rig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rigops.catalog import Catalog
    from rigops.doctor.check import Examined
    from rigops.doctor.rig.cards import Card
    from rigops.spec.model import ExpectedGpus


@dataclass(frozen=True)
class Missing:
    surely: tuple[str, ...] = ()
    maybe: str = ""


def missing(examined: Examined, living: Sequence[Card]) -> Missing:
    wanted = examined.spec.gpus
    if wanted is None:
        return Missing()
    declared = rig.declared_count(examined) or 0
    if len(living) < declared:
        words = f"{declared} declared, {len(living)} there"
        return _of_models(examined, wanted, living, words) if _is_certain(examined) else _unsure()
    if wanted.uuids:
        return _uuids(examined, wanted.uuids)
    return _of_models(examined, wanted, living, "")


def _is_certain(examined: Examined) -> bool:
    return rig.sees_the_bus(examined)


def _unsure() -> Missing:
    return Missing(maybe="fewer cards are seen than declared, and not all could be read")


def _of_models(
    examined: Examined, wanted: ExpectedGpus, living: Sequence[Card], words: str
) -> Missing:
    """Cards that nobody could name may be any of them."""
    unnamed = sum(card.model is None and card.smi is None for card in living)
    short = [
        (name, count - there)
        for name, count in wanted.models
        if (there := sum(_is_a(examined.catalog, card, name) for card in living)) < count
    ]
    names = tuple(f"{lack} of {name} missing" for name, lack in short)
    if words:
        return Missing(surely=(words, *names))
    if names and sum(lack for _, lack in short) <= unnamed:
        return Missing(maybe=f"{', '.join(names)}, unless it is one that could not be named")
    return Missing(surely=names)


def _is_a(catalog: Catalog, card: Card, name: str) -> bool:
    called = (card.name, card.smi.name if card.smi else None)
    return card.model in find_gpu(catalog, name).found or any(
        _plain(name) in _plain(one) for one in called if one
    )


def _plain(name: str) -> str:
    return " ".join(name.lower().replace("-", " ").split())


def _uuids(examined: Examined, wanted: Sequence[str]) -> Missing:
    known = {card.smi.uuid for card in examined.cards if card.smi and card.smi.uuid}
    absent = [uuid for uuid in wanted if uuid not in known]
    if not absent:
        return Missing()
    if any(card.smi is None or card.smi.uuid is None for card in examined.cards):
        return Missing(maybe=f"{', '.join(absent)}: not every card could be asked for its UUID")
    return Missing(surely=(f"{', '.join(absent)} missing",))
