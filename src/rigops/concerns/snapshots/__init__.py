"""Read-only snapshots of btrfs subvolumes: taken, pruned, sent to another disk, restored."""

from __future__ import annotations

from typing import Final

NAME: Final = "snapshots"
