"""Which pair of cards reaches which, how it goes wrong, and how fast it is. A pure function."""

from typing import NamedTuple

from .rig import Gpu, Rig

# GB/s per lane after encoding, by PCIe generation.
_LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938}
# What is left for data, what both directions reach together, and what a copy through the host does.
_PCIE_SHARE, _PCIE_BOTH, _STAGED_SHARE = 0.82, 1.87, 0.62
_NVLINK_SHARE, _NVLINK_BOTH = 0.9, 1.94
_OTHER_NODE = 0.8
_PORTS_OF_A_SWITCH = 2
_SLOW = 0.3
_DEFECTS = (
    *("hang", "wrong", "mirror", "stale", "slow"),
    *("kernel-hang", "loads-wrong", "no-flags", "map-fails", "ipc-refused"),
    *("crowd-wrong", "crowd-hang", "crowd-slow"),
)


class Reach(NamedTuple):
    granted: bool
    copy: str
    rate: float
    both: float
    latency: float
    staged: float
    link: str


def _lanes(gpu: Gpu) -> float:
    return _LANE[min(gpu.generation, gpu.model.generation)] * gpu.width


def _behaviour(rig: Rig, pair: tuple[Gpu, Gpu], driver: str, iommu: str) -> tuple[bool, str]:
    first, second = pair
    if first.model.name != second.model.name or rig.p2p == "refused":
        return False, "ok"
    if rig.p2p in _DEFECTS:
        return True, rig.p2p
    if rig.p2p == "unkillable":
        return True, "hang"
    if rig.p2p == "one-way":
        return first.number < second.number, "ok"
    return _undisturbed(rig, pair, driver, iommu)


def _undisturbed(rig: Rig, pair: tuple[Gpu, Gpu], driver: str, iommu: str) -> tuple[bool, str]:
    first, second = pair
    if (first.number, second.number) in rig.nvlinks:
        return True, "ok"
    # The whole 545 branch says yes where these cards cannot, in whatever mode the IOMMU is.
    if driver.partition(".")[0] in first.model.false_grant:
        return True, "hang"
    if rig.p2p == "granted" or rig.p2p_by_default == "granted":
        return True, "wrong" if iommu == "translated" else "ok"
    return False, "ok"


def reach(rig: Rig, first: Gpu, second: Gpu, driver: str, iommu: str) -> Reach:
    granted, copy = _behaviour(rig, (first, second), driver, iommu)
    lanes = min(_lanes(first), _lanes(second))
    if first.numa != second.numa:
        lanes *= _OTHER_NODE
    staged = lanes * _STAGED_SHARE
    links = rig.nvlinks.get((first.number, second.number), 0)
    if links:
        rate = links * first.model.nvlink_rate * _NVLINK_SHARE
        both, latency = rate * _NVLINK_BOTH, 1.3
    else:
        rate = lanes * _PCIE_SHARE
        both, latency = rate * _PCIE_BOTH, 1.1
    if copy == "slow":
        rate, both = staged * _SLOW, staged * _SLOW
    return Reach(
        granted=granted,
        copy=copy,
        rate=round(rate, 1),
        both=round(both, 1),
        latency=latency,
        staged=round(staged, 1),
        link="nvlink" if links else "pcie",
    )


def switches(rig: Rig) -> list[tuple[int, ...]]:
    """The cards that share the link above one, by the numbers of the cards."""
    behind: dict[str, list[int]] = {}
    for gpu in rig.gpus:
        if len(gpu.ports) > _PORTS_OF_A_SWITCH:
            behind.setdefault(gpu.ports[1], []).append(gpu.number)
    return [tuple(cards) for cards in behind.values()]


def matrix(rig: Rig, driver: str, iommu: str) -> dict[tuple[int, int], Reach]:
    return {
        (first.number, second.number): reach(rig, first, second, driver, iommu)
        for first in rig.gpus
        for second in rig.gpus
        if first.number != second.number
    }
