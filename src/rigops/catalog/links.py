"""The expected rate of copies between two cards, by the link between them."""

from __future__ import annotations

from collections.abc import Iterable
from math import isclose
from typing import TYPE_CHECKING, Final

from rigops.catalog.model import Link

if TYPE_CHECKING:
    from rigops.catalog.loader import Catalog
    from rigops.catalog.model import Gpu, LinkKind

# GB/s of a lane, coding taken off.
_PCIE_LANE: Final = {1: 0.25, 2: 0.5, 3: 0.9846, 4: 1.9692, 5: 3.9385, 6: 7.5625}
_DELIVERED: Final = 0.85  # of the rate, where it was not measured
_SAME: Final = 0.07  # what nvidia-smi and data sheets call the rate of one link differs by this


def pcie_link(
    catalog: Catalog, generation: int, width: int, *, across_sockets: bool = False
) -> Link | None:
    kind: LinkKind = "cross-socket" if across_sockets else "pcie"
    for link in catalog.links:
        if (link.kind, link.generation, link.width) == (kind, generation, width):
            return link
    lane = _PCIE_LANE.get(generation)
    if lane is None or width < 1 or across_sockets:
        return None
    return _computed(f"PCIe {generation}.0 x{width}", "pcie", generation, width, lane * width)


def nvlink(catalog: Catalog, gpus: Iterable[Gpu], links: int) -> Link | None:
    """Between these cards with so many links; None where one of them has no NVLink."""
    rates = [gpu.nvlink_gb_per_s / gpu.nvlink_links if gpu.nvlink_links else 0.0 for gpu in gpus]
    if not rates or not all(rates) or links < 1:
        return None
    rate = min(rates) * links
    for link in catalog.links:
        is_alike = (link.kind, link.width) == ("nvlink", links)
        if is_alike and isclose(link.theoretical, rate, rel_tol=_SAME):
            return link
    return _computed(f"NVLink with {links} links", "nvlink", 0, links, rate)


def _computed(name: str, kind: LinkKind, generation: int, width: int, rate: float) -> Link:
    expected = round(_DELIVERED * rate, 2)
    return Link(
        name=name,
        kind=kind,
        generation=generation,
        width=width,
        theoretical=round(rate, 2),
        slowest=expected,
        fastest=expected,
        measured=False,
        evidence=(),
    )
