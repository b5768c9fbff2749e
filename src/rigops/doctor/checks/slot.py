"""Where on the board each card hangs, and whether the ports above it may sleep."""

from __future__ import annotations

import re

from rigops.doctor import views
from rigops.doctor.card import Card
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.doctor.views import pcie
from rigops.probe import pcie_routes
from rigops.probe.sections.aer import SECTION as AER
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.lspci import LspciFunction
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.snapshot import HostSnapshot

_FEW_LANES = 4
_WORDS = re.compile(
    r"\bPCH\b|\bChipset (?:Family|Switch|PCIe)|\bSeries Chipset\b|Platform Controller Hub"
    r"|\bMatisse (?:Switch|PCIe GPP)|\bPromontory\b|\bSB[789][0-9]{2}\b|\bICH[0-9]{1,2}\b"
)
# "Device 43f4": a list of names that is older than the chipset.
_UNNAMED = re.compile(r"\bDevice [0-9a-f]{4}$", re.IGNORECASE)
_AMD = 0x1022
_AMD_PORTS = frozenset(
    {0x43B0, 0x43B4, 0x43C6, 0x43C7, 0x43E9, 0x43EA, 0x43F4, 0x43F5, 0x57A3, 0x57A4, 0x57AD}
)


@Check("pci.chipset_lane", needs=(BOOT, PCI, LSPCI), fixes=("hands",))
def chipset_lane(examined: Examined) -> Finding | list[Finding]:
    """No card hangs on the chipset while another has the CPU's lanes.

    Follows the ports from each card to the CPU and looks for those of a chipset by name (lspci). A
    card with few lanes there is a warning where another card has more. Where a port has no such
    name, this is skipped.
    """
    snapshot = examined.snapshot
    behind = {card.address: _is_behind_chipset(snapshot, card.address) for card in examined.cards}
    width_of = {card.address: pcie.lanes_of(examined, card).now or 0 for card in examined.cards}
    widest = max(width_of.values(), default=0)
    found = [
        _behind(card, width_of[card.address], widest)
        for card in examined.cards
        if behind[card.address] and 0 < width_of[card.address] <= _FEW_LANES
    ]
    if found:
        return found
    if behind and all(one is False for one in behind.values()) and views.sees_the_bus(examined):
        return Finding("ok", "every card uses the CPU's own lanes")
    summary = "the ports' names do not show which part of the board the cards are on"
    return Finding("skipped", summary)


def _behind(card: Card, its_width: int, widest: int) -> Finding:
    is_worse = widest > its_width
    return Finding(
        "warn" if is_worse else "info",
        f"{card.name}: x{its_width} behind the chipset"
        + (f", and another card has x{widest}" if is_worse else ""),
        (Evidence(PCI.name, card.function.line),) if card.function else (),
        subject=card.subject,
        why="Traffic through the chipset shares a narrow link with disks and network, and takes "
        "a longer way: this card slows down every copy between the cards.",
        fix=fix_by_hand(
            "move the card to a slot that the board's manual shows on the CPU; where there "
            "is none free, bifurcate the CPU's x16 slot (BIOS: PCIe bifurcation x8/x8 or x4x4x4x4) "
            "and use risers"
        )
        if is_worse
        else None,
    )


@Check("pci.reset", needs=(PCI, AER, LSPCI))
def reset(examined: Examined) -> Finding:
    """Whether the ports above the cards may sleep.

    With `auto` in power/control the kernel may put a port to sleep, which works on most boards, and
    is a known cause of lost cards on a few.
    """
    snapshot = examined.snapshot
    ports = set(pcie.ports_above(snapshot, examined.cards))
    powers = {one.address: one for one in snapshot[AER].or_empty.powers}
    asleep = [one for address, one in powers.items() if address in ports and one.control == "auto"]
    if asleep:
        return Finding(
            "info",
            f"{len(asleep)} ports above the cards may go to sleep",
            tuple(Evidence(AER.name, one.line) for one in asleep),
            why="Normal, and harmless on most boards. Where cards fall off the bus while they "
            "are idle or retrain their link (Xid 79), the kernel argument pcie_port_pm=off "
            "keeps the ports awake.",
        )
    if ports and ports <= powers.keys():
        return Finding("ok", "no port above a card goes to sleep")
    return Finding("skipped", "the power settings of the ports were not collected")


def _is_behind_chipset(snapshot: HostSnapshot, card: str) -> bool | None:
    """None where the name of a port does not show it."""
    route = pcie_routes.route_to(snapshot, card)
    if route is None or not route.ports:
        return None
    listed = snapshot[LSPCI].or_empty.by_address
    known = [_is_chipset(listed.get(port)) for port in route.ports]
    if any(known):
        return True
    return None if None in known or not route.is_complete else False


def _is_chipset(port: LspciFunction | None) -> bool | None:
    if port is None:
        return None
    if _WORDS.search(port.name) or (port.vendor == _AMD and port.device in _AMD_PORTS):
        return True
    return None if _UNNAMED.search(port.name) or not port.is_closed else False
