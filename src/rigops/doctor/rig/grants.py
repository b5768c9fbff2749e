"""What the driver grants between every two cards, sorted out, and what its letters mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.doctor import rig
from rigops.doctor.finding import Evidence, Finding
from rigops.doctor.rig import peers

if TYPE_CHECKING:
    from rigops.doctor.check import Examined
    from rigops.doctor.rig.cards import Card
    from rigops.doctor.rig.peers import Pair
    from rigops.probe.facts import HostFacts
    from rigops.probe.sections.nvidia_smi_p2p_read import PeerMatrix

READ: Final = "nvidia-smi-p2p-read"
WRITE: Final = "nvidia-smi-p2p-write"
TOPOLOGY: Final = "nvidia-smi-topo"

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
    """Every two cards once. `untold`: neither granted both ways nor refused in one."""

    granted: tuple[Pair, ...]
    refused: tuple[Pair, ...]
    untold: tuple[Pair, ...]
    all_seen: bool  # no card is missing among these pairs

    @property
    def total(self) -> int:
        return len(self.granted) + len(self.refused) + len(self.untold)

    @property
    def letters(self) -> tuple[str, ...]:
        said = {cell for pair in self.refused for cell in (pair.there, pair.back)}
        return tuple(letter for letter in LETTERS if letter in said)


def nothing_between(examined: Examined, check: str) -> Finding | None:
    if rig.has_no_gpu(examined):
        return Finding(id=check, status="skipped", summary="there is no NVIDIA GPU")
    if rig.gpu_count(examined) == 1:
        return Finding(id=check, status="skipped", summary="the only card has no peer")
    return None


def sort_out(examined: Examined) -> Grants:
    granted: list[Pair] = []
    refused: list[Pair] = []
    untold: list[Pair] = []
    for pair in peers.pairs(examined):
        if pair.is_granted:
            granted.append(pair)
        elif peers.REFUSED & {pair.there, pair.back}:
            refused.append(pair)
        else:
            untold.append(pair)
    return Grants(
        granted=tuple(granted),
        refused=tuple(refused),
        untold=tuple(untold),
        all_seen=rig.sees_the_bus(examined) and rig.gpu_count(examined) == len(examined.cards),
    )


def write_refused(facts: HostFacts) -> bool:
    """The driver grants reading and refuses writing between the same two cards."""
    read, write = facts.nvidia_smi_p2p_read, facts.nvidia_smi_p2p_write
    if read is None or write is None or read.gpus != write.gpus:
        return False
    return any(write.cells.get(pair) in peers.REFUSED for pair in read.granted)


def rows(facts: HostFacts) -> tuple[Evidence, ...]:
    return _rows(READ, facts.nvidia_smi_p2p_read)


def write_rows(facts: HostFacts) -> tuple[Evidence, ...]:
    return _rows(WRITE, facts.nvidia_smi_p2p_write)


def way_rows(facts: HostFacts) -> tuple[Evidence, ...]:
    topology = facts.nvidia_smi_topo
    return tuple(Evidence(TOPOLOGY, row) for row in topology.rows) if topology else ()


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
