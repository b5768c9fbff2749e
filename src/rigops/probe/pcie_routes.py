"""The ports between the CPU and each card, and between two cards. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rigops.dataclass import dataclass
from rigops.probe.sections.lspci import REDIRECTING, LspciFunction
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.pci import ADDRESS
from rigops.probe.sections.pci import SECTION as PCI

if TYPE_CHECKING:
    from rigops.probe.snapshot import HostSnapshot

_FUNCTION = re.compile(ADDRESS, re.IGNORECASE)
_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.IGNORECASE)
_MOST_BUSES = 256  # of a domain


@dataclass(frozen=True)
class Route:
    """The ports above a card, the root port first; more are above them where it is incomplete."""

    card: str
    ports: tuple[str, ...]
    is_complete: bool = True

    def shared_with(self, other: Route) -> tuple[str, ...]:
        """The ports that both cards are under. The last of them is the port above a switch."""
        same = 0
        for one, another in zip(self.ports, other.ports, strict=False):
            if one != another:
                break
            same += 1
        return self.ports[:same]

    def between(self, other: Route) -> tuple[str, ...]:
        """The ports through which what one card sends to the other has to pass."""
        same = len(self.shared_with(other))
        return (*self.ports[same:], *other.ports[same:])


def route_to(snapshot: HostSnapshot, card: str) -> Route | None:
    """From sysfs, else from the buses that lspci's bridges lead to. None: unknown."""
    return _by_sysfs(snapshot, card) or _by_bridges(snapshot, card)


def _by_sysfs(snapshot: HostSnapshot, card: str) -> Route | None:
    function = snapshot[PCI].or_empty.by_address.get(card)
    parts = function.path.split("/") if function and function.path else []
    if not parts or parts[-1].lower() != card:
        return None  # of a path that was cut short the rest proves nothing
    bridges = [i for i, part in enumerate(parts) if _HOST_BRIDGE.fullmatch(part)]
    if not bridges:
        return None
    below = tuple(part.lower() for part in parts[bridges[-1] + 1 : -1])
    if len(below) > _MOST_BUSES or not all(map(_FUNCTION.fullmatch, below)):
        return None
    return Route(card, below)


def _by_bridges(snapshot: HostSnapshot, card: str) -> Route | None:
    listed = snapshot[LSPCI].or_empty
    ports: dict[str, LspciFunction] = {}
    bus = _bus_of(card)
    while (port := listed.by_bus.get(bus)) and port.address not in ports:
        ports[port.address] = port
        bus = _bus_of(port.address)
    if not ports:
        return None
    top = next(reversed(ports.values()))
    has_host_bridge = bus in listed.host_bridge_buses
    is_root = top.port_type == "Root Port" or (top.port_type is None and has_host_bridge)
    return Route(card, tuple(reversed(ports)), is_complete=is_root)


def _bus_of(address: str) -> str:
    return address.rpartition(":")[0]


def redirects(port: LspciFunction | None) -> bool | None:
    """Whether it sends traffic between cards below it up to the CPU. None: unreadable."""
    if port is None:
        return None
    if port.acs is None:
        return False if port.lists_all else None
    if port.acs.enabled & REDIRECTING:
        return True
    return False if port.acs.is_complete else None
