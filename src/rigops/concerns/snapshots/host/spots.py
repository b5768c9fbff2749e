"""Where on a btrfs a path is, whether there is something at it or not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from rigops.concerns.snapshots.host.btrfs import (
    TOP_LEVEL,
    HostError,
    Subvolume,
    subvolume_id,
)
from rigops.concerns.snapshots.host.volumes import (
    SUBVOLUME_INODE,
    Volume,
    file_system_of,
    find_nested,
    open_volume,
)


class Spot(NamedTuple):
    """`inside`: from the top level, empty for itself. `subvolume`: the one that is there now."""

    path: str
    volume: Volume
    inside: str
    subvolume: Subvolume | None
    nested: tuple[str, ...] = ()

    @property
    def at(self) -> str:
        return f"{self.volume.top}/{self.inside}".rstrip("/")


def find_spot(path: str) -> Spot:
    """Where the path is missing: where it would be."""
    is_there = os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114
    start = path if is_there else os.path.dirname(path)  # noqa: PTH120
    if not Path(start).is_dir():
        raise HostError(
            f"{start} does not exist", "make it, or mount the file system that has it; or use --to"
        )
    kind, uuid, device = file_system_of(start)
    if kind != "btrfs":
        raise HostError(
            f"{start} is on {kind or 'no file system'}, not on btrfs",
            "mount the new btrfs so that it has this path, or use --to DIR",
        )
    volume = open_volume(device, uuid)
    every = volume.subvolumes()
    names: list[str] = []
    above = path
    if not is_there:
        names, above = [os.path.basename(path)], start  # noqa: PTH119
    while Path(above).stat().st_ino != SUBVOLUME_INODE:
        names.insert(0, os.path.basename(above))  # noqa: PTH119
        above = os.path.dirname(above)  # noqa: PTH120
    number = subvolume_id(above)
    holder = next((one for one in every if one.number == number), TOP_LEVEL)
    inside = "/".join(filter(None, [holder.path, *names]))
    if names:
        return Spot(path, volume, inside, None)
    return Spot(path, volume, inside, holder, find_nested(holder, every))
