"""Facts of every two cards: their link, and the driver's grants between them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from rigops.dataclass import dataclass
from rigops.doctor import views
from rigops.doctor.card import Card
from rigops.doctor.examined import Examined, once
from rigops.doctor.finding import Evidence, Finding
from rigops.probe.section import Section
from rigops.probe.sections.nvidia_smi_p2p import READ as P2P_READ
from rigops.probe.sections.nvidia_smi_p2p import WRITE as P2P_WRITE
from rigops.probe.sections.nvidia_smi_topo import SECTION as TOPOLOGY

if TYPE_CHECKING:
    from rigops.probe.snapshot import HostSnapshot

GRANTED = "OK"
MOST_CARDS: Final = 256  # no machine has more; the work grows with their square
REFUSED = frozenset({"CNS", "GNS", "TNS", "NS", "DR"})
LETTERS: Final = {
    "CNS": "CNS: on this chipset the driver offers no peer access between these cards",
    "GNS": "GNS: the driver offers none for these cards",
    "TNS": "TNS: the driver offers none for the path between them, as across two processors",
    "NS": "NS: not supported, for no reported reason",
    "DR": "DR: a setting of the driver switches it off",
}
MIXED_WHY: Final = (
    "NVIDIA's driver offers peer access over PCIe only between cards with the same chip: between "
    "these, data goes through the host's memory. That is slower, it is correct, and no setting "
    "changes it."
)


@dataclass(frozen=True)
class Pair:
    """`there` and `back` are the cells of `topo -p2p r`; None and U: not reported."""

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


@once
def pairs(examined: Examined) -> tuple[Pair, ...]:
    """Every two cards; none of too many (`no_pairs`).

    The driver numbers those it drives, in the order of their addresses.
    """
    if len(examined.cards) > MOST_CARDS:
        return ()
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
        [
            card.address
            for card in examined.cards
            if card.function and card.function.driver == "nvidia"
        ],
    )
    for addresses in candidates:
        if numbered == tuple(range(len(addresses))):
            return dict(zip(addresses, numbered, strict=True))
    return {}


@dataclass(frozen=True, kw_only=True)
class Grants:
    """Every two cards once. `undetermined`: neither granted both ways nor refused in one."""

    granted: tuple[Pair, ...]
    refused: tuple[Pair, ...]
    undetermined: tuple[Pair, ...]
    all_seen: bool  # no card is missing among these pairs

    @property
    def total(self) -> int:
        return len(self.granted) + len(self.refused) + len(self.undetermined)

    @property
    def letters(self) -> tuple[str, ...]:
        cells = {cell for pair in self.refused for cell in (pair.there, pair.back)}
        return tuple(letter for letter in LETTERS if letter in cells)


def no_pairs(examined: Examined) -> Finding | None:
    """Why no two cards are judged."""
    if views.gpu_count(examined) == 1:
        return Finding("skipped", "the only card has no peer to talk to")
    if len(examined.cards) > MOST_CARDS:
        summary = f"{len(examined.cards)} cards: rigops judges pairs of at most {MOST_CARDS}"
        return Finding("unknown", summary)
    return None


@once
def classify_pairs(examined: Examined) -> Grants:
    granted: list[Pair] = []
    refused: list[Pair] = []
    undetermined: list[Pair] = []
    for pair in pairs(examined):
        if pair.is_granted:
            granted.append(pair)
        elif REFUSED & {pair.there, pair.back}:
            refused.append(pair)
        else:
            undetermined.append(pair)
    return Grants(
        granted=tuple(granted),
        refused=tuple(refused),
        undetermined=tuple(undetermined),
        all_seen=views.sees_the_bus(examined) and views.gpu_count(examined) == len(examined.cards),
    )


def is_for_own_modules(examined: Examined) -> bool:
    """Whether peer access over PCIe is required of the owner's own modules, loaded or to come.

    The driver's present grants are then no reason to spare what would hinder it.
    """
    return examined.spec.driver_modules is not None and examined.spec.p2p == "required"


def write_refused(snapshot: HostSnapshot) -> bool:
    """The driver grants reading and refuses writing between the same two cards."""
    read, write = snapshot[P2P_READ].value, snapshot[P2P_WRITE].value
    if read is None or write is None or read.gpus != write.gpus:
        return False
    return any(write.cells.get(pair) in REFUSED for pair in read.granted)


def rows(snapshot: HostSnapshot, *more: Section[Any]) -> tuple[Evidence, ...]:
    """Of the matrix of reads, and of more outputs, as nvidia-smi printed them."""
    sections: tuple[Section[Any], ...] = (P2P_READ, *more)
    return tuple(Evidence(one.name, row) for one in sections for row in snapshot[one].or_empty.rows)


def chip(device_id: int) -> int:
    """NVIDIA gives each chip a block of 128 device ids: 2204 and 2230 are both GA102."""
    return device_id >> 7


def is_mixed(pair: Pair) -> bool | None:
    """Whether the two have different chips: the driver offers no PCIe peer access between them."""
    devices = [device(card) for card in (pair.one, pair.other)]
    if None not in devices:
        return len({chip(one) for one in devices if one is not None}) > 1
    models = [card.model for card in (pair.one, pair.other)]
    if None in models:
        return None
    architectures = {model.architecture for model in models if model}
    return True if len(architectures) > 1 else None


def offers_none(pair: Pair) -> bool:
    """NVIDIA's driver never offers these two P2P over PCIe, nor have they NVLink."""
    models = (pair.one.model, pair.other.model)
    return any(model and model.p2p == "none" for model in models) or is_mixed(pair) is True


def device(card: Card) -> int | None:
    if card.function is not None:
        return card.function.device
    return card.lspci.device if card.lspci is not None else None
