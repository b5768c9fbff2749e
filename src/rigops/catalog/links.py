"""Links between cards: the expected rate of copies, and the transport that NCCL will choose."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import isclose
from typing import Final

from rigops.catalog.loader import Catalog
from rigops.catalog.model import Gpu, Link, LinkKind
from rigops.dataclass import dataclass

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


# From near to far, as `nvidia-smi topo -m` names the paths; NV stands for any number of NVLinks.
NEAR_TO_FAR: Final = ("NV", "PIX", "PXB", "PHB", "NODE", "SYS")

# NCCL 2.23.4 (commit 68b54236) stopped crossing host bridges, but for two cards on an AMD
# processor.
CHANGED_IN: Final = "2.23.4"
SHARED_MEMORY: Final = "SHM"
PEER: Final = "P2P"

_A_PAIR = 2
_FAR = "SYS"
_BELOW_ONE_BRIDGE = "PXB"


@dataclass(frozen=True)
class Transports:
    """P2P, SHM, or for how many pairs which: before the change, and since."""

    before: str
    since: str


def predict(
    ways: Mapping[tuple[str, str], str],
    granted: Collection[tuple[str, str]],
    *,
    gpus: int,
    processor: str,
) -> Transports:
    """`ways` and `granted` are of ordered pairs; `processor` is the vendor in /proc/cpuinfo."""
    is_amd = processor == "AuthenticAMD"
    return Transports(
        before=_overall(ways, granted, _FAR if is_amd else _BELOW_ONE_BRIDGE),
        since=_overall(ways, granted, _FAR if is_amd and gpus == _A_PAIR else _BELOW_ONE_BRIDGE),
    )


def _overall(
    ways: Mapping[tuple[str, str], str], granted: Collection[tuple[str, str]], farthest: str
) -> str:
    near = NEAR_TO_FAR[: NEAR_TO_FAR.index(farthest) + 1]
    peer = [pair for pair, way in ways.items() if pair in granted and way in near]
    if not peer:
        return SHARED_MEMORY
    if len(peer) == len(ways):
        return PEER
    return f"{PEER} for {len(peer)} of {len(ways)} pairs, else {SHARED_MEMORY}"
