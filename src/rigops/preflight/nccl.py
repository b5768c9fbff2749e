"""What NCCL will do with what the driver grants; it never tries whether that works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.preflight.wiring import NEAR_TO_FAR

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# NCCL 2.23.4 (commit 68b54236) stopped crossing host bridges, but for two cards on an AMD
# processor.
_CHANGED_IN = "2.23.4"
_AMD = "AuthenticAMD"
_A_PAIR = 2


def predicted_transport(
    ways: Mapping[tuple[str, str], str] | None,
    granted: Collection[tuple[str, str]],
    *,
    gpus: int,
    processor: str,
) -> str | None:
    """P2P or SHM, by version where that matters; None where it cannot be told."""
    if gpus < 2:  # noqa: PLR2004 - a pair
        return None
    if not granted:
        return "SHM"
    if ways is None:
        return None
    old = _overall(ways, granted, "SYS" if processor == _AMD else "PXB")
    new = _overall(ways, granted, "SYS" if processor == _AMD and gpus == _A_PAIR else "PXB")
    return new if old == new else f"{new} (before NCCL {_CHANGED_IN}: {old})"


def _overall(
    ways: Mapping[tuple[str, str], str], granted: Collection[tuple[str, str]], farthest: str
) -> str:
    near = NEAR_TO_FAR[: NEAR_TO_FAR.index(farthest) + 1]
    peer = [pair for pair, way in ways.items() if pair in granted and way in near]
    if not peer:
        return "SHM"
    return (
        "P2P" if len(peer) == len(ways) else f"P2P for {len(peer)} of {len(ways)} pairs, else SHM"
    )
