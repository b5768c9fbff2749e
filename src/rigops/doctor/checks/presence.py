"""The cards: whether all that belong here are here, and answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.doctor import rig
from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Evidence, Finding, Remedy
from rigops.doctor.rig import expected, pcie
from rigops.doctor.rig.lost import SMI, Loss, lost_cards

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rigops.doctor.finding import Status
    from rigops.doctor.rig.cards import Card

COUNT = "gpu.count"
LOST = "gpu.lost"

_NVIDIA = "nvidia"
_WHY_FEWER = (
    "A card that does not appear on the bus has no power, no contact or no slot that is switched "
    "on. Where the driver lists fewer cards than the bus, it has given up on the others."
)
_WHY_LOST = (
    "A card that answers nothing any more has fallen off the bus: power that sags under load, a "
    "riser or a cable, heat, or a card that dies. Whatever ran on it hangs or has failed."
)
_SEEK = (
    "power off, reseat the card, its riser and its power cables (one cable for each socket), and "
    "look for Xid 79 in the log of the boot before. If the same card stays away in another slot "
    "and on other cables, it is the card; if another one is missing then, it is the slot, the "
    "riser or the power supply"
)


def count(examined: Examined) -> list[Finding]:
    if rig.has_no_gpu(examined):
        return [_count("info", "there is no NVIDIA GPU, and none is declared", ())]
    losses = lost_cards(examined)
    living = [card for card in examined.cards if card.address not in losses]
    missing = expected.missing(examined, living)
    silent = _not_listed(examined, living)
    complaints = [*missing.surely]
    if losses:
        complaints.append(f"lost: {', '.join(losses)}")
    if silent:
        complaints.append(f"on the bus, and not in nvidia-smi's list: {', '.join(silent)}")
    said = [one for loss in losses.values() for one in loss.evidence]
    evidence = [*said, *_failure(examined), *_seen(examined.cards)]
    if complaints:
        return [_count("fail", "; ".join(complaints), evidence)]
    doubt = missing.maybe or _doubt(examined)
    if doubt:
        return [_count("unknown", doubt, evidence)]
    return [_complete(examined, evidence)]


def _complete(examined: Examined, evidence: Sequence[Evidence]) -> Finding:
    there, declared = len(examined.cards), rig.declared_count(examined)
    if declared is not None and there > declared:
        return _count("info", f"{_cards(there)}, {declared} declared", evidence)
    return _count("ok", _cards(there) + (", as declared" if declared else ""), evidence)


def _count(status: Status, summary: str, evidence: Iterable[Evidence]) -> Finding:
    is_failure = status == "fail"
    return Finding(
        id=COUNT,
        status=status,
        summary=summary,
        evidence=tuple(dict.fromkeys(evidence)),
        why=_WHY_FEWER if is_failure else "",
        remedy=Remedy(kind="hands", text=_SEEK) if is_failure else None,
    )


def _cards(number: int) -> str:
    return "1 card is there" if number == 1 else f"{number} cards are there"


def _seen(cards: Iterable[Card]) -> list[Evidence]:
    return [
        Evidence("pci", card.function.line)
        if card.function
        else Evidence("lspci", card.lspci.line)
        if card.lspci
        else Evidence(SMI, card.smi.line if card.smi else "")
        for card in cards
    ]


def _failure(examined: Examined) -> list[Evidence]:
    report = examined.facts.nvidia_smi_xml
    return [Evidence(SMI, line) for line in report.failure_lines] if report else []


def _not_listed(examined: Examined, living: Sequence[Card]) -> list[str]:
    """nvidia-smi that fails as a whole says nothing about one card: the driver's checks tell."""
    report = examined.facts.nvidia_smi_xml
    if report is None or not examined.facts.is_whole(SMI):
        return []
    if report.failure == "no-devices":
        return [card.address for card in living if _driver(card) == _NVIDIA]
    if report.failure or not report.is_whole:
        return []
    return [
        card.address for card in living if card.smi is None and _driver(card) in {_NVIDIA, None}
    ]


def _driver(card: Card) -> str | None:
    function = card.function
    bound = function.driver if function and pcie.is_complete(function) else None
    return bound or (card.lspci.driver if card.lspci else None)


def _doubt(examined: Examined) -> str:
    """Why it cannot be said that the cards that are seen are all, and all driven."""
    facts = examined.facts
    if not examined.cards or not rig.sees_the_bus(examined):
        return "which cards are on the bus could not be read to the end"
    if facts.pci is None and facts.lspci and facts.lspci.unread:
        return "not every line of lspci could be read"
    if (rig.gpu_count(examined) or 0) > len(examined.cards):
        return "the driver tells of more cards than the bus"
    if _is_listed_whole(examined) or not _may_be_driven(examined):
        return ""
    seen = _cards(len(examined.cards))
    if facts.nvidia_smi_xml is None:
        return f"{seen}, and which of them the driver has was not collected"
    return f"{seen}, and nvidia-smi did not list those that the driver has"


def _is_listed_whole(examined: Examined) -> bool:
    report = examined.facts.nvidia_smi_xml
    is_whole = report is not None and report.is_whole and not report.failure
    return is_whole and examined.facts.is_whole(SMI)


def _may_be_driven(examined: Examined) -> bool:
    """Not where no driver is loaded, nor where another one has them, such as vfio-pci."""
    drivers = {_driver(card) for card in examined.cards}
    loaded = examined.facts.nvidia_version
    is_absent = loaded is not None and not loaded.is_loaded
    return _NVIDIA in drivers or (None in drivers and not is_absent)


def lost(examined: Examined) -> list[Finding]:
    if rig.has_no_gpu(examined):
        return [Finding(id=LOST, status="skipped", summary="there is no NVIDIA GPU")]
    losses = lost_cards(examined)
    gone = [_lost(address, loss) for address, loss in losses.items()]
    living = [card for card in examined.cards if card.address not in losses]
    odd = [_odd(card) for card in living if card.smi and card.smi.troubles]
    silent = [card.address for card in living if not _answers(examined, card)]
    if gone or odd:
        return [*gone, *odd]
    if silent or not living:
        who = ", ".join(silent) or "the cards"
        summary = f"whether {who} would answer is not known"
        return [Finding(id=LOST, status="unknown", summary=summary)]
    return [Finding(id=LOST, status="ok", summary="every card answers")]


def _lost(address: str, loss: Loss) -> Finding:
    return Finding(
        id=LOST,
        status="fail",
        summary=f"{loss.name}: {loss.words}",
        subject=f"gpu {address}",
        evidence=loss.evidence,
        why=_WHY_LOST,
        remedy=Remedy(kind="hands", text=f"reboot once. If it happens again, {_SEEK}"),
    )


def _odd(card: Card) -> Finding:
    troubles = card.smi.troubles if card.smi else ()
    is_power = all("power" in line.lower() for line in troubles)
    return Finding(
        id=LOST,
        status="info" if is_power else "warn",
        summary=f"{card.name}: nvidia-smi cannot read {'its power' if is_power else 'a value'}",
        subject=card.subject,
        evidence=tuple(Evidence(SMI, line) for line in troubles),
        why="Everything else of this card answers: some models cannot measure this."
        if is_power
        else "A value that a card could tell and cannot any more is often the first sign of a "
        "fan, a sensor or a card that fails.",
        remedy=None if is_power else Remedy(kind="hands", text=f"watch this card; {_SEEK}"),
    )


def _answers(examined: Examined, card: Card) -> bool:
    """On the bus as lspci reads it, and to the driver that has it."""
    listed = examined.facts.lspci
    on_bus = listed is not None and (card.lspci is not None or not listed.functions)
    if card.smi is not None and _is_listed_whole(examined):
        return on_bus
    return card.lspci is not None and not _may_be_driven(examined)


CHECKS = (
    Check(
        id=COUNT,
        title="Every card that belongs here is here",
        explanation=(
            "Counts the NVIDIA display devices on the bus (sysfs and lspci), those that nvidia-smi "
            "lists, and those that the inventory declares in `gpus`: a number, models or UUIDs. A "
            "card that has fallen off the bus counts as missing. nvidia-smi that fails as a whole "
            "does not mean that there is no card, and where other drivers have the cards it is not "
            "asked. Without any NVIDIA device and without a declaration this is information."
        ),
        run=count,
        essential=True,
        keys=frozenset({"gpus"}),
    ),
    Check(
        id=LOST,
        title="Every card answers",
        explanation=(
            "A card that dropped off the bus reads as (rev ff) in lspci, is named by an error line "
            "of nvidia-smi, or says ERR! for several of its values while others look alive. Power "
            "alone that cannot be read is normal on some models."
        ),
        run=lost,
    ),
)
