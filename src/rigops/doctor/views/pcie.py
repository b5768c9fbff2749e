"""The ports above the cards, and the lanes of their links."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rigops.dataclass import dataclass
from rigops.doctor.card import Card
from rigops.doctor.examined import Examined, once
from rigops.doctor.finding import Evidence
from rigops.probe.pcie_routes import route_to
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.sections.pci import Link, PciFunction
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE

if TYPE_CHECKING:
    from rigops.probe.snapshot import HostSnapshot

_LIMITED = re.compile(
    r"^pci (?P<address>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0): [0-9.]{1,9} Gb/s available PCIe "
    r"bandwidth, limited by [0-9.]{1,5} GT/s PCIe x(?P<now>[0-9]{1,2}) link at .{1,40}\(capable of "
    r"[0-9.]{1,9} Gb/s with [0-9.]{1,5} GT/s PCIe x(?P<own>[0-9]{1,2}) link\)"
)
# QEMU, virtio, VMware, Xen, Hyper-V, VirtualBox: devices that are made of software.
_VIRTUAL_VENDORS = frozenset({0x1B36, 0x1AF4, 0x15AD, 0x5853, 0x1414, 0x80EE})
# Widths of real links. A function that is gone reads as 63 or 255 lanes, QEMU's ports say 32.
_WIDTHS = frozenset({1, 2, 4, 8, 12, 16})
_SPEEDS = frozenset({2.5, 5, 8, 16, 32, 64})


def ports_above(snapshot: HostSnapshot, cards: Iterable[Card]) -> tuple[str, ...]:
    """Each once."""
    routes = [route_to(snapshot, card.address) for card in cards]
    return tuple(dict.fromkeys(port for route in routes if route for port in route.ports))


@once
def subjects_below(examined: Examined) -> dict[str, list[str]]:
    """By the address of each card and of each port above one."""
    below: dict[str, list[str]] = {}
    for card in examined.cards:
        route = route_to(examined.snapshot, card.address)
        for address in (card.address, *(route.ports if route else ())):
            below.setdefault(address, []).append(card.subject)
    return below


def aer_is_off(snapshot: HostSnapshot) -> str | None:
    """The kernel argument that switches the error counters of PCIe off."""
    arguments = snapshot[PROC_CMDLINE].or_empty.arguments
    pci = (one for one in arguments if one.startswith("pci="))
    return next((one for one in pci if "noaer" in one[4:].split(",")), None)


def port_above(snapshot: HostSnapshot, card: str) -> str | None:
    route = route_to(snapshot, card)
    return route.ports[-1] if route and route.ports else None


def is_complete(function: PciFunction) -> bool:
    """Its line ends with the path: without it, a width of 16 may have been cut to 1."""
    return " path=" in function.line


def is_virtual_machine(snapshot: HostSnapshot) -> bool | None:
    """Where the bus is one that a hypervisor made up."""
    reported = snapshot[BOOT].or_empty.is_virtual_machine
    if reported:
        return True
    sources = (snapshot[PCI].or_empty, snapshot[LSPCI].or_empty)
    if any(one.vendors & _VIRTUAL_VENDORS for one in sources):
        return True
    return reported


@dataclass(frozen=True)
class Lanes:
    """None: no source reports it."""

    now: int | None
    own: int | None  # lanes_of the card
    port: int | None  # lanes_of what it is plugged into
    evidence: tuple[Evidence, ...]
    is_virtual: bool = False  # the port is one that a hypervisor made up
    is_narrower: bool = False  # than the card could, by lspci's word

    @property
    def expected(self) -> int | None:
        if self.own is None or self.port is None:
            return None
        return min(self.own, self.port)


def lanes_of(examined: Examined, card: Card) -> Lanes:
    snapshot = examined.snapshot
    function, listed, smi = card.function, card.lspci, card.smi
    status = listed.link_status if listed else None
    capability = listed.link_capability if listed else None
    now = _least(
        lanes_now(function),
        status.width if status else None,
        smi.width if smi else None,
    )
    own = _most(
        most_lanes(function),
        capability.width if capability else None,
        smi.width_max if smi else None,
    )
    reported = [
        Evidence(PCI.name, function.line) if function else None,
        Evidence(LSPCI.name, status.line) if status else None,
    ]
    if smi and not any(reported):
        said = (line for path, line in smi.raw.items() if "link_width" in path)
        reported += [Evidence(SMI.name, line) for line in said]
    if now is None and (logged := _logged(examined).get(card.address)):
        now, own = int(logged[0]["now"]), own or int(logged[0]["own"])
        reported.append(Evidence(KERNEL_LOG.name, logged[1]))
    port, about_port = _of_port(snapshot, card)
    by_model = card.model.pcie_width if card.model else None
    is_virtual = is_virtual_machine(snapshot) is True
    is_real = not is_virtual and (port is None or now is None or port >= now)
    return Lanes(
        now,
        own or by_model,
        port if is_real else None,
        tuple(one for one in (*reported, about_port) if one),
        is_virtual,
        status is not None and status.is_narrower,
    )


@once
def _logged(examined: Examined) -> dict[str, tuple[re.Match[str], str]]:
    """The kernel's first lines at boot on cards that could have more than they get."""
    found: dict[str, tuple[re.Match[str], str]] = {}
    for entry in examined.snapshot[KERNEL_LOG].or_empty.matching(_LIMITED):
        if shape := _LIMITED.search(entry.message):
            found.setdefault(shape["address"], (shape, entry.line))
    return found


def _of_port(snapshot: HostSnapshot, card: Card) -> tuple[int | None, Evidence | None]:
    address = port_above(snapshot, card.address)
    function = snapshot[PCI].or_empty.by_address.get(address or "")
    listed = snapshot[LSPCI].or_empty.by_address.get(address or "")
    capability = listed.link_capability if listed else None
    width = _most(
        most_lanes(function),
        capability.width if capability else None,
    )
    if function:
        return width, Evidence(PCI.name, function.line)
    return width, Evidence(LSPCI.name, capability.line) if capability else None


def lanes_now(function: PciFunction | None) -> int | None:
    return _width(function.link) if function and is_complete(function) else None


def most_lanes(function: PciFunction | None) -> int | None:
    return _width(function.fastest_link) if function and is_complete(function) else None


def _width(link: Link | None) -> int | None:
    return link.width if link and link.gt_per_s in _SPEEDS else None


def _least(*widths: int | None) -> int | None:
    return min(_known(widths), default=None)


def _most(*widths: int | None) -> int | None:
    return max(_known(widths), default=None)


def _known(widths: Iterable[int | None]) -> list[int]:
    return [width for width in widths if width in _WIDTHS]
