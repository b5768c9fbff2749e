"""Cards that are there, or were, and do not answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.doctor.finding import Evidence

if TYPE_CHECKING:
    from rigops.doctor.check import Examined
    from rigops.doctor.rig.cards import Card

SMI = "nvidia-smi-xml"

_FEWEST = 2  # values that a card cannot tell, beside its power, before it counts as dead
_LOST = ("is lost", "requires reset")
_POWER = "power"


@dataclass(frozen=True)
class Loss:
    name: str
    words: str
    evidence: tuple[Evidence, ...]


def lost_cards(examined: Examined) -> dict[str, Loss]:
    """By address. A card that only nvidia-smi's error line names is among them."""
    report = examined.facts.nvidia_smi_xml
    found = {card.address: loss for card in examined.cards if (loss := _loss(card))}
    for address in report.lost if report else ():
        if address not in found:
            name = next((one.name for one in examined.cards if one.address == address), "a card")
            said = tuple(Evidence(SMI, line) for line in report.failure_lines) if report else ()
            found[address] = Loss(name, "nvidia-smi cannot reach it any more", said)
    return found


def _loss(card: Card) -> Loss | None:
    if card.lspci is not None and card.lspci.is_gone:
        line = Evidence("lspci", card.lspci.line)
        return Loss(card.name, "it answers nothing on the bus any more", (line,))
    troubles = card.smi.troubles if card.smi else ()
    said = tuple(Evidence(SMI, line) for line in troubles)
    if any(word in line.lower() for line in troubles for word in _LOST):
        return Loss(card.name, "nvidia-smi says that it is lost", said)
    if len([line for line in troubles if _POWER not in line.lower()]) >= _FEWEST:
        return Loss(card.name, f"it cannot tell {len(troubles)} of its values any more", said)
    return None
