"""Where on the board each card hangs, and whether the ports above it may sleep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.doctor import rig
from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Evidence, Finding, Remedy
from rigops.doctor.rig import chipset, lanes, pcie

if TYPE_CHECKING:
    from rigops.doctor.finding import Status
    from rigops.doctor.rig.cards import Card

CHIPSET = "pci.chipset_lane"
RESET = "pci.reset"

_NO_GPU = "there is no NVIDIA GPU"
_FEW_LANES = 4


def _host(check: str, status: Status, summary: str) -> Finding:
    return Finding(id=check, status=status, summary=summary)


def chipset_lane(examined: Examined) -> list[Finding]:
    if rig.has_no_gpu(examined):
        return [_host(CHIPSET, "skipped", _NO_GPU)]
    facts = examined.facts
    behind = {card.address: chipset.is_above(facts, card.address) for card in examined.cards}
    width_of = {card.address: lanes.of(facts, card).now or 0 for card in examined.cards}
    widest = max(width_of.values(), default=0)
    found = [
        _behind(card, width_of[card.address], widest)
        for card in examined.cards
        if behind[card.address] and 0 < width_of[card.address] <= _FEW_LANES
    ]
    if found:
        return found
    if behind and all(one is False for one in behind.values()) and rig.sees_the_bus(examined):
        return [_host(CHIPSET, "ok", "every card hangs on the CPU's own lanes")]
    summary = "which part of the board the cards hang on could not be told from the ports' names"
    return [_host(CHIPSET, "skipped", summary)]


def _behind(card: Card, its_width: int, widest: int) -> Finding:
    is_worse = widest > its_width
    return Finding(
        id=CHIPSET,
        status="warn" if is_worse else "info",
        summary=f"{card.name}: x{its_width} behind the chipset"
        + (f", and another card has x{widest}" if is_worse else ""),
        subject=card.subject,
        evidence=(Evidence("pci", card.function.line),) if card.function else (),
        why="What goes through the chipset shares a narrow link with disks and network, and takes "
        "a longer way: this card slows down every copy between the cards.",
        remedy=Remedy(
            kind="hands",
            text="move the card to a slot that the board's manual shows on the CPU; where there "
            "is none free, bifurcate the CPU's x16 slot (BIOS: PCIe bifurcation x8/x8 or x4x4x4x4) "
            "and use risers",
        )
        if is_worse
        else None,
    )


def reset(examined: Examined) -> list[Finding]:
    if rig.has_no_gpu(examined):
        return [_host(RESET, "skipped", _NO_GPU)]
    facts = examined.facts
    ways = [pcie.way_to(facts, card.address) for card in examined.cards]
    ports = {port for way in ways if way for port in way.ports}
    powers = {one.address: one for one in facts.aer.powers} if facts.aer else {}
    asleep = [one for address, one in powers.items() if address in ports and one.control == "auto"]
    if asleep:
        return [
            Finding(
                id=RESET,
                status="info",
                summary=f"{len(asleep)} ports above the cards may go to sleep",
                evidence=tuple(Evidence("aer", one.line) for one in asleep),
                why="Normal, and harmless on most boards. Where cards fall off the bus while they "
                "are idle or retrain their link (Xid 79), the kernel argument pcie_port_pm=off "
                "keeps the ports awake.",
            )
        ]
    if ports and ports <= powers.keys():
        return [_host(RESET, "ok", "no port above a card goes to sleep")]
    return [_host(RESET, "skipped", "the power settings of the ports were not collected")]


CHECKS = (
    Check(
        id=CHIPSET,
        title="No card hangs on the chipset while another has the CPU's lanes",
        explanation=(
            "Follows the ports from each card to the CPU and looks for those of a chipset by name "
            "(lspci). A card with few lanes there is a warning where another card has more. Where "
            "a port's name tells nothing, nothing is said."
        ),
        run=chipset_lane,
    ),
    Check(
        id=RESET,
        title="Whether the ports above the cards may sleep",
        explanation=(
            "With `auto` in power/control the kernel may put a port to sleep, which is "
            "well on most boards, and a known cause of lost cards on a few."
        ),
        run=reset,
    ),
)
