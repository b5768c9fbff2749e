"""Whether a port belongs to the chipset, behind which everything shares four lanes or so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rigops.doctor.rig import pcie

if TYPE_CHECKING:
    from rigops.probe.facts import HostFacts
    from rigops.probe.sections.lspci import LspciFunction

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


def is_above(facts: HostFacts, card: str) -> bool | None:
    """None where a port has no name that tells."""
    way = pcie.way_to(facts, card)
    if way is None or not way.ports:
        return None
    listed = pcie.by_address(facts)
    known = [_is_chipset(listed.get(port)) for port in way.ports]
    if any(known):
        return True
    return None if None in known or not way.is_whole else False


def _is_chipset(port: LspciFunction | None) -> bool | None:
    if port is None:
        return None
    if _WORDS.search(port.name) or (port.vendor == _AMD and port.device in _AMD_PORTS):
        return True
    return None if _UNNAMED.search(port.name) or not port.is_closed else False
