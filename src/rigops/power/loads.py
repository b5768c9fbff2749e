"""The power limit that counts for each card.

It is the declared one as it will be once applied. Without a declaration, or where the card refuses
it, it is the limit in force; of a card that nobody asked, the default that the catalog has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from rigops.catalog.model import Gpu
from rigops.dataclass import dataclass
from rigops.inventory.spec.choice import GpuIdentity, choose, uuids_of
from rigops.inventory.spec.gpu import written_limit
from rigops.inventory.spec.model import PerGpu, PowerLimit

SPIKE_FACTOR: Final = 1.71  # for unknown cards: the highest known, that of the RTX 3090
TOLERANCE_WATTS: Final = 1.0  # nvidia-smi rounds
_WHOLE: Final = 100.0  # percent

Source = Literal["declared", "in force", "default", "unknown"]


@dataclass(frozen=True, kw_only=True)
class KnownCard:
    """None: not known. `is_asked`: by nvidia-smi, so that None is what the card does not report."""

    identity: GpuIdentity
    model: Gpu | None
    is_asked: bool = True
    watts_limit: float | None = None  # in force
    watts_default: float | None = None
    watts_min: float | None = None
    watts_max: float | None = None
    watts_idle: float | None = None  # what it draws now, if it is idle


@dataclass(frozen=True, kw_only=True)
class Load:
    """A card at its power limit; None: limit unknown."""

    address: str
    watts: float | None
    spike_factor: float = SPIKE_FACTOR
    least_watts: float | None = None  # the lowest limit that it accepts
    most_watts: float | None = None
    name: str = ""
    source: Source = "in force"
    watts_now: float | None = None  # the limit in force
    watts_idle: float | None = None
    note: str = ""  # why it is unknown, or why the declaration does not count

    @property
    def peak(self) -> float:
        return (self.watts or 0.0) * self.spike_factor

    @property
    def is_pending(self) -> bool:
        """Another limit is in force than the one that counts."""
        known = self.watts is not None and self.watts_now is not None
        return known and abs((self.watts or 0) - (self.watts_now or 0)) > TOLERANCE_WATTS


def loads_of(cards: Sequence[KnownCard], declared: PerGpu[PowerLimit] | None) -> tuple[Load, ...]:
    uuids = uuids_of(card.identity for card in cards)
    return tuple(_load(card, declared, uuids) for card in cards)


def _load(card: KnownCard, declared: PerGpu[PowerLimit] | None, uuids: frozenset[str]) -> Load:
    watts, source, note = _limit(card, declared, uuids)
    identity = card.identity
    known = card.model.name if card.model else next(iter(identity.names), "unknown GPU")
    return Load(
        address=identity.address or identity.uuid or "?",
        watts=watts,
        spike_factor=card.model.spike_factor if card.model else SPIKE_FACTOR,
        least_watts=card.watts_min,
        most_watts=card.watts_max,
        name=known,
        source=source,
        watts_now=card.watts_limit,
        watts_idle=card.watts_idle,
        note=note,
    )


def _limit(
    card: KnownCard, declared: PerGpu[PowerLimit] | None, uuids: frozenset[str]
) -> tuple[float | None, Source, str]:
    choice = choose(declared, card.identity, uuids) if declared else None
    if choice and not choice.is_certain:
        note = "gpu_power_limit names cards by UUID, and which is this one is not known"
        return None, "unknown", note
    if choice and choice.value:
        return _declared(card, choice.value)
    return _undeclared(card)


def _declared(card: KnownCard, limit: PowerLimit) -> tuple[float | None, Source, str]:
    least, most = card.watts_min, card.watts_max
    if card.is_asked and card.watts_limit is None and least is None and most is None:
        return None, "unknown", "the card takes no power limit"
    watts, written = limit.watts, written_limit(limit)
    if watts is None:
        if card.watts_default is None:
            return None, "unknown", f"declared {written} of its default, which is not known"
        watts = card.watts_default * (limit.percent or _WHOLE) / 100
    is_below = least is not None and watts < least - TOLERANCE_WATTS
    # A card may take more than the catalog knows.
    is_above = card.is_asked and most is not None and watts > most + TOLERANCE_WATTS
    if not (is_below or is_above):
        return watts, "declared", ""
    accepted = " to ".join(f"{one:g}" if one is not None else "?" for one in (least, most))
    in_force, source, note = _undeclared(card)
    refused = f"declared {watts:g} W, and the card accepts {accepted} W"
    return in_force, source, f"{refused}; {note}" if note else refused


def _undeclared(card: KnownCard) -> tuple[float | None, Source, str]:
    if card.is_asked:
        if card.watts_limit is None:
            return None, "unknown", "the card does not report its limit"
        return card.watts_limit, "in force", ""
    if card.watts_default is None:
        return None, "unknown", "the catalog has no default of this card"
    return card.watts_default, "default", ""
