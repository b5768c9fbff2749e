"""Questions that several checks ask about the cards of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rigops.catalog.model import Gpu
    from rigops.doctor.check import Examined

PCI = "pci"


def has_no_gpu(examined: Examined) -> bool:
    """Known to have none, and none is declared."""
    return gpu_count(examined) == 0


def gpu_count(examined: Examined) -> int | None:
    """None where nobody knows. Of several sources the greatest: a list may have lost its end."""
    facts = examined.facts
    matrices = (facts.nvidia_smi_p2p_read, facts.nvidia_smi_topo)
    numbered = [len(matrix.gpus) for matrix in matrices if matrix]
    most = max(len(examined.cards), declared_count(examined) or 0, *numbered, 0)
    return most if sees_the_bus(examined) or most > 1 else None


def declared_count(examined: Examined) -> int | None:
    expected = examined.spec.gpus
    if expected is None:
        return None
    by_model = sum(count for _, count in expected.models)
    return expected.total or by_model or len(expected.uuids)


def sees_the_bus(examined: Examined) -> bool:
    """Whether a card that no source names is not there: sysfs or lspci was read to its end."""
    facts = examined.facts
    pci, lspci = facts.pci, facts.lspci
    by_sysfs = pci is not None and facts.is_whole(PCI) and not pci.unread
    by_lspci = lspci is not None and bool(lspci.functions) and facts.is_whole("lspci")
    return by_sysfs or by_lspci


def models(examined: Examined) -> tuple[Gpu | None, ...]:
    """Each kind of card once; None for one that the catalogue does not know."""
    return tuple(dict.fromkeys(card.model for card in examined.cards))


def known_models(examined: Examined) -> tuple[Gpu, ...]:
    return tuple(model for model in models(examined) if model)
