"""Which cards are meant, and which do not answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from rigops.doctor import views
from rigops.doctor.card import Card
from rigops.doctor.examined import Examined, once
from rigops.doctor.finding import HOST, UNKNOWN_CARD, Evidence, Finding
from rigops.inventory.spec.choice import Choice, choose, uuids_of
from rigops.inventory.spec.model import PerGpu
from rigops.probe import lost_cards as lost
from rigops.probe.lost_cards import LostCard
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.pasted import SECTION as PASTED

Value = TypeVar("Value")

_SWITCHED_OFF = re.compile(
    r"\bbbswitch: (?:disabling|.{1,60}\bis off)\b|"
    r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] OFF\b",
    re.MULTILINE,
)
_SURER = "`lspci -vvv`, as root, shows every card and its slot."
_BY_SMI_ALONE = f"By nvidia-smi alone, of the cards that the driver has. {_SURER}"


def chosen(examined: Examined, choices: PerGpu[Value], card: Card) -> Choice[Value]:
    return choose(choices, card.identity, _uuids(examined))


@once
def _uuids(examined: Examined) -> frozenset[str]:
    return uuids_of(card.identity for card in examined.cards)


def lost_cards(examined: Examined) -> dict[str, LostCard]:
    """By address. A card that only nvidia-smi's error line names is among them."""
    return {} if is_switched_off(examined) else silent_cards(examined)


@once
def is_switched_off(examined: Examined) -> bool:
    """The laptop's own card, by bbswitch, so that nothing on the bus answers."""
    sections = examined.snapshot.bundle.sections
    texts = (sections[one].text for one in (PASTED.name, KERNEL_LOG.name) if one in sections)
    return any("bbswitch" in text and _SWITCHED_OFF.search(text) for text in texts)


@once
def silent_cards(examined: Examined) -> dict[str, LostCard]:
    cards = examined.cards
    is_all = views.sees_the_bus(examined) and views.gpu_count(examined) == len(cards)
    return lost.lost_cards(examined.snapshot, [card.address for card in cards] if is_all else [])


def evidence_of(card: LostCard) -> tuple[Evidence, ...]:
    return tuple(Evidence(section, line) for section, line in card.lines)


def subject_of(examined: Examined, address: str | None) -> str:
    """Of a line of the driver, which may name no card."""
    if address is None and views.gpu_count(examined) == len(examined.cards) == 1:
        return examined.cards[0].subject
    return f"gpu {address}" if address else UNKNOWN_CARD


def answers(examined: Examined, subject: str) -> bool:
    """To nvidia-smi, now; where the card is not known, that each does."""
    report, gone = examined.snapshot[SMI].value, lost_cards(examined)
    if report is None or report.failure or not report.is_complete:
        return False
    if card := _by_subject(examined).get(subject):
        return card.smi is not None and card.address not in gone
    is_known = len(examined.cards) == 1 or subject in {HOST, UNKNOWN_CARD}
    return is_known and all(card.smi and card.address not in gone for card in examined.cards)


@once
def _by_subject(examined: Examined) -> dict[str, Card]:
    return {card.subject: card for card in examined.cards}


def judge_answering(
    examined: Examined, judge: Callable[[Card], Finding], value: str, ok: Finding
) -> list[Finding]:
    """The cards that answer and are not ok; or `ok`, with the evidence of all."""
    gone, is_all = lost_cards(examined), views.sees_all_driven(examined)
    judged = [judge(card) for card in examined.cards if card.address not in gone]
    found = [one for one in judged if one.status not in {"ok", "unknown"}]
    unreadable = [one.subject.removeprefix("gpu ") for one in judged if one.status == "unknown"]
    if unreadable or (not found and (gone or not judged or not is_all)):
        who = ", ".join(unreadable or gone) or "all cards"
        found.append(Finding("unknown", f"the {value} of {who} could not be read", why=_SURER))
    why = ok.why if views.sees_the_bus(examined) else f"{ok.why} {_BY_SMI_ALONE}".strip()
    cited = tuple(line for one in judged for line in one.evidence)
    return found or [replace(ok, evidence=cited, why=why)]
