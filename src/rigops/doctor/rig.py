"""Questions that several checks ask about the cards of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.catalog import find_gpu

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.catalog.model import Gpu
    from rigops.doctor.check import Examined
    from rigops.probe.sections.pci import PciFunction

PCI = "pci"


def has_no_gpu(examined: Examined) -> bool:
    """Known to have none, and none is declared."""
    return gpu_count(examined) == 0


def gpu_count(examined: Examined) -> int | None:
    """None where nobody knows. Of several sources the greatest: a list may have lost its end."""
    facts, spec = examined.facts, examined.spec
    counts: list[int] = []
    if facts.pci is not None:
        counts.append(len(facts.pci.nvidia_gpus))
    if facts.nvidia_smi_p2p_read is not None:
        counts.append(len(facts.nvidia_smi_p2p_read.gpus))
    if spec.gpus is not None:
        by_model = sum(count for _, count in spec.gpus.models)
        counts.append(spec.gpus.total or by_model or len(spec.gpus.uuids))
    known = facts.pci is not None and facts.is_whole(PCI) and not facts.pci.unread
    most = max(counts, default=0)
    return most if known or most > 1 else None


def model(catalog: Catalog, function: PciFunction) -> Gpu | None:
    return find_gpu(catalog, f"10de:{function.device:04x}").only


def models(examined: Examined) -> tuple[Gpu | None, ...]:
    """Each kind of card once; None for one that the catalogue does not know."""
    pci = examined.facts.pci
    functions = pci.nvidia_gpus if pci else ()
    return tuple(dict.fromkeys(model(examined.catalog, one) for one in functions))
