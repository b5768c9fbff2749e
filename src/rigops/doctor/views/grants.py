"""What the driver grants between every two cards, sorted out, and what its letters mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.doctor import views
from rigops.doctor.finding import Evidence, Finding
from rigops.doctor.views import peers
from rigops.probe.sections.nvidia_smi_p2p import READ as P2P_READ
from rigops.probe.sections.nvidia_smi_p2p import WRITE as P2P_WRITE
from rigops.probe.sections.nvidia_smi_topo import SECTION as TOPOLOGY

if TYPE_CHECKING:
    from rigops.doctor.check import Examined
    from rigops.doctor.views.cards import Card
    from rigops.doctor.views.peers import Pair
    from rigops.probe.sections.nvidia_smi_p2p import PeerMatrix
    from rigops.probe.snapshot import HostSnapshot


LETTERS: Final = {
    "CNS": "CNS: on this chipset the driver offers no peer access between these cards",
    "GNS": "GNS: the driver offers none for these cards",
    "TNS": "TNS: the driver offers none for the way between them, as across two processors",
    "NS": "NS: not supported, and the driver does not say why",
    "DR": "DR: a setting of the driver switches it off",
}

MIXED_WHY: Final = (
    "NVIDIA's driver offers peer access over PCIe only between cards with the same chip: between "
    "these, data goes through the host's memory. That is slower, it is correct, and no setting "
    "changes it."
)


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
        said = {cell for pair in self.refused for cell in (pair.there, pair.back)}
        return tuple(letter for letter in LETTERS if letter in said)


def nothing_between(examined: Examined) -> Finding | None:
    if views.gpu_count(examined) == 1:
        return Finding("skipped", "the only card has no peer")
    return None


def classify_pairs(examined: Examined) -> Grants:
    granted: list[Pair] = []
    refused: list[Pair] = []
    undetermined: list[Pair] = []
    for pair in peers.pairs(examined):
        if pair.is_granted:
            granted.append(pair)
        elif peers.REFUSED & {pair.there, pair.back}:
            refused.append(pair)
        else:
            undetermined.append(pair)
    return Grants(
        granted=tuple(granted),
        refused=tuple(refused),
        undetermined=tuple(undetermined),
        all_seen=views.sees_the_bus(examined) and views.gpu_count(examined) == len(examined.cards),
    )


def write_refused(snapshot: HostSnapshot) -> bool:
    """The driver grants reading and refuses writing between the same two cards."""
    read, write = snapshot[P2P_READ].value, snapshot[P2P_WRITE].value
    if read is None or write is None or read.gpus != write.gpus:
        return False
    return any(write.cells.get(pair) in peers.REFUSED for pair in read.granted)


def rows(snapshot: HostSnapshot) -> tuple[Evidence, ...]:
    return _rows(P2P_READ.name, snapshot[P2P_READ].value)


def write_rows(snapshot: HostSnapshot) -> tuple[Evidence, ...]:
    return _rows(P2P_WRITE.name, snapshot[P2P_WRITE].value)


def way_rows(snapshot: HostSnapshot) -> tuple[Evidence, ...]:
    topology = snapshot[TOPOLOGY].value
    return tuple(Evidence(TOPOLOGY.name, row) for row in topology.rows) if topology else ()


def _rows(section: str, matrix: PeerMatrix | None) -> tuple[Evidence, ...]:
    return tuple(Evidence(section, row) for row in matrix.rows) if matrix else ()


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


def device(card: Card) -> int | None:
    if card.function is not None:
        return card.function.device
    return card.lspci.device if card.lspci is not None else None
