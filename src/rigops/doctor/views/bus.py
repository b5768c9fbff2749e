"""What is on the bus: cards with what they share lanes with, for a drawing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.doctor.card import Card
from rigops.doctor.examined import Examined
from rigops.doctor.views import pcie, peers
from rigops.doctor.views.cards import lost_cards
from rigops.probe.pcie_routes import redirects, route_to
from rigops.probe.sections.iommu_groups import SECTION as IOMMU_GROUPS
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.sections.pci import PciFunction

Kind = Literal["GPU", "NVMe", "SATA", "network", "InfiniBand"]

_KINDS: Final[dict[int, Kind]] = {
    0x0106: "SATA",
    0x0108: "NVMe",
    0x0200: "network",
    0x0207: "InfiniBand",
}
GENERATIONS: Final = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_NODE: Final = re.compile(r" numa=([0-9]{1,3}) ")
_SPEED: Final = re.compile(r"\bSpeed ([0-9]{1,2}(?:\.5)?)GT/s")


@dataclass(frozen=True)
class Link:
    """Lanes now, and how many it could have. `generation`: the highest; an idle card has less."""

    width: int | None = None
    most: int | None = None
    generation: int | None = None

    @property
    def is_narrow(self) -> bool:
        return self.width is not None and self.most is not None and self.width < self.most

    def __str__(self) -> str:
        """Empty where nothing is known."""
        lanes = "" if self.width is None else f"x{self.width}"
        of = f"of x{self.most}" if self.is_narrow else ""
        generation = f"gen {self.generation}" if self.generation else ""
        return " ".join(filter(None, (lanes, of, generation)))


@dataclass(frozen=True, kw_only=True)
class Device:
    """`ports`: the root port first; None: not known. `node`: of its CPU.

    `is_lost`: it has fallen off the bus.
    """

    address: str
    kind: Kind
    name: str
    ports: tuple[str, ...] | None
    link: Link
    group: str = ""
    node: int | None = None
    is_lost: bool = False

    @property
    def title(self) -> str:
        if self.is_lost:
            return f"{self.name}: lost"
        return self.name if self.kind == "GPU" else f"{self.kind} {self.name}".strip()


@dataclass(frozen=True, kw_only=True)
class Bus:
    """`uplinks`: of switches, by their upper port.

    `redirecting`: ports that send what cards exchange through the CPU.
    `nvlinks`: between addresses of cards. `apart`: kinds of devices on lanes of their own.
    """

    devices: tuple[Device, ...] = ()
    uplinks: Mapping[str, Link] = field(default_factory=dict)
    redirecting: frozenset[str] = frozenset()
    nvlinks: tuple[tuple[str, str, str], ...] = ()
    apart: tuple[tuple[str, int], ...] = ()
    gaps: tuple[str, ...] = ()


def find_bus(examined: Examined) -> Bus:
    snapshot = examined.snapshot
    cards = [_card(examined, card) for card in examined.cards]
    used = {port for card in cards for port in card.ports or ()}
    others = _others(examined)
    sharing = [one for one in others if used & set(one.ports or ())]
    apart = Counter(one.kind for one in others if one not in sharing)
    listed = snapshot[LSPCI].or_empty.by_address
    links = ((one.one.address, one.other.address, one.link) for one in peers.pairs(examined))
    devices = (*cards, *sharing)
    return Bus(
        devices=tuple(sorted(devices, key=_by_place)),
        uplinks={
            port: _link(examined, port) for one in devices for port in (one.ports or ())[1::2]
        },
        redirecting=frozenset(port for port in used if redirects(listed.get(port))),
        nvlinks=tuple(
            (one, other, link) for one, other, link in links if link and link[:2] == "NV"
        ),
        apart=tuple(sorted(apart.items())),
        gaps=tuple(_gaps(examined, cards)),
    )


def _by_place(device: Device) -> tuple[object, ...]:
    return -1 if device.node is None else device.node, device.ports or (), device.address


def _gaps(examined: Examined, cards: list[Device]) -> list[str]:
    snapshot = examined.snapshot
    texts = {
        "the ports above the cards": any(card.ports is None for card in cards),
        "lanes": any(card.link.width is None and not card.is_lost for card in cards),
        "IOMMU groups": snapshot[IOMMU_GROUPS].value is None,
        "NVLink": len(cards) > 1 and all(one.link is None for one in peers.pairs(examined)),
    }
    return [text for text, is_missing in texts.items() if is_missing]


def _card(examined: Examined, card: Card) -> Device:
    lanes, route = pcie.lanes_of(examined, card), route_to(examined.snapshot, card.address)
    speeds = [_generation(examined, one) for one in (card.address, *(route.ports if route else ()))]
    known = [one for one in (speeds[0], speeds[-1]) if one]
    if not known and card.smi and card.smi.generation_max:
        known = [card.smi.generation_max]
    return Device(
        address=card.address,
        kind="GPU",
        name=card.name.removeprefix("NVIDIA ").removeprefix("GeForce "),
        ports=route.ports if route else None,
        link=Link(lanes.now, lanes.expected or lanes.own, min(known, default=None)),
        group=_group(examined, card.address, route.ports if route else ()),
        node=_node(card.function),
        is_lost=card.address in lost_cards(examined),
    )


def _others(examined: Examined) -> list[Device]:
    """Disks and networks."""
    snapshot = examined.snapshot
    listed = snapshot[LSPCI].or_empty.by_address
    classes = {one.address: one.pci_class for one in listed.values()}
    functions = snapshot[PCI].or_empty.by_address
    classes |= {one.address: one.pci_class >> 8 for one in functions.values()}
    found = []
    for address, number in classes.items():
        kind, route = _KINDS.get(number or 0), route_to(snapshot, address)
        if kind is None or route is None:
            continue
        named = listed.get(address)
        found.append(
            Device(
                address=address,
                kind=kind,
                name=named.product or named.name if named else "",
                ports=route.ports,
                link=_link(examined, address),
                group=_group(examined, address, route.ports),
                node=_node(functions.get(address)),
            )
        )
    return found


def _link(examined: Examined, address: str) -> Link:
    function = examined.snapshot[PCI].or_empty.by_address.get(address)
    now, fastest = (function.link, function.fastest_link) if function else (None, None)
    return Link(
        now.width if now else None,
        fastest.width if fastest else None,
        _generation(examined, address),
    )


def _node(function: PciFunction | None) -> int | None:
    found = _NODE.search(function.line) if function else None
    return int(found[1]) if found else None


def _generation(examined: Examined, address: str) -> int | None:
    function = examined.snapshot[PCI].or_empty.by_address.get(address)
    if function and function.fastest_link:
        return GENERATIONS.get(function.fastest_link.gt_per_s)
    listed = examined.snapshot[LSPCI].or_empty.by_address.get(address)
    capability = listed.link_capability if listed else None
    speed = _SPEED.search(capability.line) if capability else None
    return GENERATIONS.get(float(speed[1])) if speed else None


def _group(examined: Examined, address: str, ports: tuple[str, ...]) -> str:
    """With how many devices beside it, which a virtual machine would get as well."""
    groups = examined.snapshot[IOMMU_GROUPS].or_empty
    own = groups.by_address.get(address)
    if own is None:
        return ""
    members = {one.address for one in groups.members if one.group == own.group} - {*ports}
    others = len({one.rpartition(".")[0] for one in members} - {address.rpartition(".")[0]})
    return f"{own.group}, with {others} more" if others else str(own.group)
