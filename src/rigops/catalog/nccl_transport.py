"""Predicts NCCL's transport from what the driver grants, without a test."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from rigops.dataclass import dataclass

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
