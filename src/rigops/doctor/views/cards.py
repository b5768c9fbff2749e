"""Which cards are meant, and which do not answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from rigops.dataclass import dataclass
from rigops.doctor import views
from rigops.doctor.finding import Evidence, Finding
from rigops.doctor.once import once
from rigops.inventory.spec.choice import choose, uuids_of
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI

if TYPE_CHECKING:
    from rigops.doctor.card import Card
    from rigops.doctor.examined import Examined
    from rigops.inventory.spec.choice import Choice
    from rigops.inventory.spec.model import PerGpu
    from rigops.probe.smi.report import SmiReport

Value = TypeVar("Value")

# Values that only the card itself can report, while it works. Its power is not among them: some
# models cannot measure it. All else is a setting or a property, which the driver may fail to tell
# alone.
MEASURED: Final = frozenset(
    ("fan_speed", "performance_state", "temperature", "utilization", "fb_memory_usage", "clocks")
)
_SURER = "`lspci -vvv`, as root, shows every card and its slot."
_BY_SMI_ALONE = f"By nvidia-smi alone, of the cards that the driver has. {_SURER}"
_FEWEST = 2  # of them unreadable, before a card counts as dead


def chosen(examined: Examined, choices: PerGpu[Value], card: Card) -> Choice[Value]:
    return choose(choices, card.identity, _uuids(examined))


@once
def _uuids(examined: Examined) -> frozenset[str]:
    return uuids_of(card.identity for card in examined.cards)


@dataclass(frozen=True)
class LostCard:
    name: str
    words: str
    evidence: tuple[Evidence, ...]


@once
def lost_cards(examined: Examined) -> dict[str, LostCard]:
    """By address. A card that only nvidia-smi's error line names is among them."""
    report = examined.snapshot[SMI].value
    found = {card.address: loss for card in examined.cards if (loss := _loss(card))}
    names = {card.address: card.name for card in examined.cards}
    evidence = tuple(Evidence(SMI.name, line) for line in report.failure_lines) if report else ()
    for address in _named_lost(examined, report) if report else ():
        words = "nvidia-smi cannot reach it any more"
        found.setdefault(address, LostCard(names.get(address, "a card"), words, evidence))
    return found


def _named_lost(examined: Examined, report: SmiReport) -> list[str]:
    """The driver numbers the cards by address. "unknown" where a line does not tell which it is."""
    cards = examined.cards
    is_all = views.sees_the_bus(examined) and views.gpu_count(examined) == len(cards)
    numbered = [
        cards[number].address if is_all and number < len(cards) else "unknown"
        for number in report.lost_numbers
    ]
    return [*report.lost, *numbered] or ["unknown"] * (report.failure == "lost")


def subject_of(examined: Examined, address: str | None) -> str:
    """Of a line of the driver, which may name no card."""
    if address is None and views.gpu_count(examined) == len(examined.cards) == 1:
        return examined.cards[0].subject
    return f"gpu {address or 'unknown'}"


def answers(examined: Examined, subject: str) -> bool:
    """To nvidia-smi, now; where the card is not known, that all do."""
    report, lost = examined.snapshot[SMI].value, lost_cards(examined)
    if report is None or report.failure or not report.is_complete:
        return False
    if card := _by_subject(examined).get(subject):
        return card.smi is not None and card.address not in lost
    is_known = len(examined.cards) == 1 or subject == "gpu unknown"
    return is_known and all(card.smi and card.address not in lost for card in examined.cards)


@once
def _by_subject(examined: Examined) -> dict[str, Card]:
    return {card.subject: card for card in examined.cards}


def judge_answering(
    examined: Examined, judge: Callable[[Card], Finding], value: str, ok: Finding
) -> list[Finding]:
    """The cards that answer and are not ok; or `ok`, with the evidence of all."""
    lost, is_all = lost_cards(examined), views.sees_all_driven(examined)
    judged = [judge(card) for card in examined.cards if card.address not in lost]
    found = [one for one in judged if one.status not in {"ok", "unknown"}]
    unreadable = [one.subject.removeprefix("gpu ") for one in judged if one.status == "unknown"]
    if unreadable or (not found and (lost or not judged or not is_all)):
        who = ", ".join(unreadable or lost) or "all cards"
        found.append(Finding("unknown", f"the {value} of {who} could not be read", why=_SURER))
    why = ok.why if views.sees_the_bus(examined) else f"{ok.why} {_BY_SMI_ALONE}".strip()
    cited = tuple(line for one in judged for line in one.evidence)
    return found or [replace(ok, evidence=cited, why=why)]


def _loss(card: Card) -> LostCard | None:
    if card.lspci is not None and card.lspci.is_gone:
        line = Evidence(LSPCI.name, card.lspci.line)
        return LostCard(card.name, "it answers nothing on the bus any more", (line,))
    smi = card.smi
    if smi is None:
        return None
    evidence = tuple(Evidence(SMI.name, line) for line in smi.troubles.values())
    said = "\n".join(smi.troubles.values()).lower()
    if "is lost" in said or "requires reset" in said:
        return LostCard(card.name, "nvidia-smi reports it as lost", evidence)
    failed = {path.partition("/")[0] for path in smi.troubles} & MEASURED
    measured = (
        smi.fan_percent, smi.performance_state, smi.celsius, smi.utilization_percent, smi.watts,
        smi.mhz_graphics,
    )  # fmt: skip
    if len(failed) >= max(_FEWEST, sum(one is not None for one in measured)):
        words = f"{len(smi.troubles)} of its values cannot be read any more"
        return LostCard(card.name, words, evidence)
    return None
