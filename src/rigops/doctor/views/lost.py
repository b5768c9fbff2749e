"""Cards that are there, or were, and do not answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.doctor.finding import Evidence
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI

if TYPE_CHECKING:
    from rigops.doctor.check import Examined
    from rigops.doctor.views.cards import Card


_FEWEST = 2  # values that a card cannot tell, beside its power, before it counts as dead
_LOST = ("is lost", "requires reset")
_POWER = "power"


@dataclass(frozen=True)
class LostCard:
    name: str
    words: str
    evidence: tuple[Evidence, ...]


def lost_cards(examined: Examined) -> dict[str, LostCard]:
    """By address. A card that only nvidia-smi's error line names is among them."""
    report = examined.snapshot[SMI].value
    found = {card.address: loss for card in examined.cards if (loss := _loss(card))}
    for address in report.lost if report else ():
        if address not in found:
            name = next((one.name for one in examined.cards if one.address == address), "a card")
            said = (
                tuple(Evidence(SMI.name, line) for line in report.failure_lines) if report else ()
            )
            found[address] = LostCard(name, "nvidia-smi cannot reach it any more", said)
    return found


def _loss(card: Card) -> LostCard | None:
    if card.lspci is not None and card.lspci.is_gone:
        line = Evidence(LSPCI.name, card.lspci.line)
        return LostCard(card.name, "it answers nothing on the bus any more", (line,))
    troubles = card.smi.troubles if card.smi else ()
    said = tuple(Evidence(SMI.name, line) for line in troubles)
    if any(word in line.lower() for line in troubles for word in _LOST):
        return LostCard(card.name, "nvidia-smi reports it as lost", said)
    if len([line for line in troubles if _POWER not in line.lower()]) >= _FEWEST:
        return LostCard(card.name, f"{len(troubles)} of its values cannot be read any more", said)
    return None
