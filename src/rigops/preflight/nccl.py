"""The transport that NCCL will use, predicted from the answer of preflight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.catalog.nccl_transport import CHANGED_IN, SHARED_MEMORY, predict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def predicted_transport(
    ways: Mapping[tuple[str, str], str] | None,
    granted: Collection[tuple[str, str]],
    *,
    gpus: int,
    processor: str,
) -> str | None:
    """P2P or SHM, by NCCL version where they differ; None if unknown."""
    if gpus < 2:  # noqa: PLR2004 - a pair
        return None
    if not granted:
        return SHARED_MEMORY
    if ways is None:
        return None
    found = predict(ways, granted, gpus=gpus, processor=processor)
    if found.since == found.before:
        return found.since
    return f"{found.since} (before NCCL {CHANGED_IN}: {found.before})"
