"""What to do about an incident, the first time and when it has come back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rigops.catalog import find_xid
from rigops.doctor.finding import Remedy

if TYPE_CHECKING:
    from rigops.doctor.check import Examined
    from rigops.doctor.rig.incidents import Incident

# Too little or too uneven power is the first suspect, and the only one that software can help.
_OF_POWER: Final = frozenset({79, 167})
_CONCERN: Final = "gpu_tuning"
_KEY: Final = "gpu_power_limit"
_LOWER: Final = "80%"
_NOT_LISTED: Final = (
    "look the number up in NVIDIA's table of Xid errors (docs.nvidia.com/deploy/xid-errors), and "
    "restart the program that used the card"
)
_PEER_TESTS: Final = (
    "simpleP2P",
    "p2pBandwidthLat",  # the kernel cuts names at 15 characters
    "nvbandwidth",
    "all_reduce_perf",
    "all_gather_perf",
    "sendrecv_perf",
)
_MMU_FAULT: Final = 31
_BROKEN_MAPPING: Final = (
    "the mapping of the other card's memory is broken: see iommu.mode and acs.path, then the driver"
)
_ACTION: Final = re.compile(r"\bto 0x[0-9a-fA-F]{1,8} \((?P<action>[^()]{1,60})\)")
_NO_ACTION: Final = "None"
_NEXT_TIME: Final = "A second time: "


def hit_a_peer_test(incident: Incident) -> bool:
    """What is a program's error in daily work is the machine's during such a test."""
    return incident.number == _MMU_FAULT and any(
        process.startswith(_PEER_TESTS) for process in incident.processes
    )


def action(incident: Incident) -> str:
    """What the driver asks for at last, in its own words; empty for nothing."""
    told = [shape["action"] for one in incident.details if (shape := _ACTION.search(one))]
    return told[-1] if told and told[-1] != _NO_ACTION else ""


def remedy(examined: Examined, incident: Incident, *, came_back: bool) -> Remedy:
    known = find_xid(examined.catalog, incident.number)
    text = known.remedy if known else _NOT_LISTED
    if hit_a_peer_test(incident):
        text = _BROKEN_MAPPING
    asked = action(incident)
    if came_back:
        cure = text.partition(_NEXT_TIME)[2] or text
        text = f"it has come back after a reboot, so that another one is no cure: {cure}"
    if asked:
        text = f"the driver asks for: {asked}. {text}"
    lowers = incident.number in _OF_POWER and _KEY not in examined.spec.declared
    if came_back or not lowers:
        return Remedy(kind="hands", text=text)
    return Remedy(
        kind="apply",
        concern=_CONCERN,
        declare={_KEY: _LOWER},
        text=f"reboot once; `rigops apply` then lowers the power limit. {text}",
        by_hand=text,
    )
