"""Questions that several checks ask about the cards of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rigops.doctor.examined import once
from rigops.probe.section import Section
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.nvidia_smi_p2p import READ as P2P_READ
from rigops.probe.sections.nvidia_smi_topo import SECTION as TOPOLOGY
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.pci import SECTION as PCI

if TYPE_CHECKING:
    from rigops.catalog.model import DrivenGpu, Gpu
    from rigops.doctor.examined import Examined


NO_GPU: Final = "there is no NVIDIA GPU"
NAMES_CARDS: Final[tuple[Section[Any], ...]] = (PCI, LSPCI, SMI)
COUNTS_CARDS: Final[tuple[Section[Any], ...]] = (*NAMES_CARDS, TOPOLOGY, P2P_READ)


def has_no_gpu(examined: Examined) -> bool:
    """Known to have none, and none is declared."""
    return gpu_count(examined) == 0


@once
def gpu_count(examined: Examined) -> int | None:
    """None: unknown. Of several sources the greatest: a list may have lost its end."""
    snapshot = examined.snapshot
    matrices = (snapshot[P2P_READ].value, snapshot[TOPOLOGY].value)
    numbered = [len(matrix.gpus) for matrix in matrices if matrix]
    most = max(len(examined.cards), declared_count(examined) or 0, *numbered, 0)
    return most if sees_the_bus(examined) or most > 1 else None


def declared_count(examined: Examined) -> int | None:
    expected = examined.spec.gpus
    return expected.count if expected else None


def sees_the_bus(examined: Examined) -> bool:
    """Whether a card that no source names is not there: sysfs or lspci was read to its end."""
    snapshot = examined.snapshot
    by_lspci = bool(snapshot[LSPCI].or_empty.functions) and snapshot[LSPCI].is_complete
    return snapshot[PCI].is_exhaustive or by_lspci


def is_listed_whole(examined: Examined) -> bool:
    """By nvidia-smi: every card that the driver has."""
    report = examined.snapshot[SMI].value
    is_complete = report is not None and report.is_complete and not report.failure
    return is_complete and examined.snapshot[SMI].is_complete


def sees_all_driven(examined: Examined) -> bool:
    """Copies go between cards that the driver has: of those none is missing."""
    return sees_the_bus(examined) or is_listed_whole(examined)


def models(examined: Examined) -> tuple[Gpu | None, ...]:
    """Each kind of card once; None for one that the catalog does not know."""
    return tuple(dict.fromkeys(card.model for card in examined.cards))


def driven(examined: Examined) -> tuple[DrivenGpu, ...]:
    """Each kind of card once, of which it is known what drives it."""
    return tuple(dict.fromkeys(card.driven for card in examined.cards if card.driven))
