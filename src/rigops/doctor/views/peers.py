"""What is known about every two cards before any byte has moved between them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from rigops.probe.sections.nvidia_smi_p2p import READ as P2P_READ
from rigops.probe.sections.nvidia_smi_topo import SECTION as TOPOLOGY

if TYPE_CHECKING:
    from rigops.doctor.check import Examined
    from rigops.doctor.views.cards import Card

GRANTED = "OK"
REFUSED = frozenset({"CNS", "GNS", "TNS", "NS", "DR"})


@dataclass(frozen=True)
class Pair:
    """`there` and `back` are the cells of `topo -p2p r`; None and U: the driver did not tell."""

    one: Card
    other: Card
    there: str | None
    back: str | None
    link: str | None  # of `topo -m`: NV4, PIX, PXB, PHB, NODE, SYS

    @property
    def is_granted(self) -> bool | None:
        cells = (self.there, self.back)
        if all(cell == GRANTED for cell in cells):
            return True
        return False if all(cell in REFUSED for cell in cells) else None

    @property
    def has_nvlink(self) -> bool | None:
        return None if self.link is None else self.link.startswith("NV")


def pairs(examined: Examined) -> tuple[Pair, ...]:
    """Every two cards. The driver numbers those it drives, in the order of their addresses."""
    snapshot = examined.snapshot
    peers, topology = snapshot[P2P_READ].value, snapshot[TOPOLOGY].value
    cells = peers.cells if peers else {}
    links = topology.links if topology else {}
    by_cells = _numbers(examined, peers.gpus if peers else ())
    by_links = _numbers(examined, topology.gpus if topology else ())

    def pair(one: Card, other: Card) -> Pair:
        i, j = by_cells.get(one.address, -1), by_cells.get(other.address, -1)
        k, m = by_links.get(one.address, -1), by_links.get(other.address, -1)
        return Pair(one, other, cells.get((i, j)), cells.get((j, i)), links.get((k, m)))

    return tuple(pair(one, other) for one, other in combinations(examined.cards, 2))


def _numbers(examined: Examined, numbered: tuple[int, ...]) -> dict[str, int]:
    """Nothing where it is not certain which number is whose."""
    candidates = (
        [card.address for card in examined.cards],
        [card.address for card in examined.cards if card.smi],
        [card.address for card in examined.cards if _is_driven(card)],
    )
    for addresses in candidates:
        if numbered == tuple(range(len(addresses))):
            return dict(zip(addresses, numbered, strict=True))
    return {}


def _is_driven(card: Card) -> bool:
    return card.function is not None and card.function.driver == "nvidia"
