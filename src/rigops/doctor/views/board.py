"""The board of a host, and its firmware's settings in the words that this board uses."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from rigops.catalog.model import Setting
from rigops.concerns.preconditions.firmware import Turn, in_the_bios
from rigops.doctor.examined import Examined, once
from rigops.probe.sections.firmware import SECTION as FIRMWARE
from rigops.probe.sections.firmware import Cpu, Firmware
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.snapshot import HostSnapshot

_DMI = re.compile(r"^DMI: (?P<system>.+)/(?P<board>[^/]+), BIOS ")
_HOST_BRIDGE: Final = 0x0600
_MAKERS: Final[dict[int, Cpu]] = {0x1022: "amd", 0x8086: "intel"}


def firmware(snapshot: HostSnapshot) -> Firmware:
    """By the section firmware, else by the kernel log and the bus."""
    found = snapshot[FIRMWARE].value or Firmware()
    if not found.vendor:
        system, board = _logged(snapshot)
        found = replace(found, vendor=system, board=board)
    return found if found.cpu else replace(found, cpu=_by_host_bridge(snapshot))


def steps(examined: Examined, *settings: Setting, turn: Turn = "on") -> str:
    return in_the_bios(examined.catalog, _firmware(examined), *settings, turn=turn)


@once
def _firmware(examined: Examined) -> Firmware:
    return firmware(examined.snapshot)


def _logged(snapshot: HostSnapshot) -> tuple[str, str]:
    for entry in snapshot[KERNEL_LOG].or_empty.matching(_DMI):
        if shape := _DMI.search(entry.message):
            system, board = shape["system"], shape["board"]
            return system, "" if system.endswith(board) else board
    return "", ""


def _by_host_bridge(snapshot: HostSnapshot) -> Cpu:
    known = {
        _MAKERS[one.vendor]
        for one in snapshot[PCI].or_empty.functions
        if one.pci_class >> 8 == _HOST_BRIDGE and one.vendor in _MAKERS
    }
    return known.pop() if len(known) == 1 else ""
