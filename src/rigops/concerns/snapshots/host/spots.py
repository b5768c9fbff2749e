"""Where on a btrfs a path is, whether there is something at it or not."""

from __future__ import annotations

from typing import NamedTuple

from rigops.backup.host.errors import HostError
from rigops.backup.host.subvolumes import (
    Subvolume,
    find_nested,
    subvolume_at,
    subvolumes_below,
)
from rigops.backup.host.volumes import Volume, find_on_volume
from rigops.hostside.shared.beneath import Folder, open_beneath, open_folder, open_parent


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
    """Where the path is missing: where it would be. No link in it is followed."""
    if path == "/":
        with open_folder(path) as root:
            return _spot_of(path, root)
    try:
        with open_parent(path) as entry:
            if entry.is_folder:
                with open_beneath(entry.folder, entry.name) as folder:
                    return _spot_of(path, folder)
            above = find_on_volume(entry.folder)
    except FileNotFoundError as error:
        raise HostError(
            f"{error.filename} does not exist",
            "make it, or mount the file system that has it; or use --to",
        ) from error
    return Spot(path, above.volume, f"{above.inside}/{entry.name}".strip("/"), None)


def _spot_of(path: str, folder: Folder) -> Spot:
    volume, inside = find_on_volume(folder)
    found = subvolume_at(folder, inside)
    nested = find_nested(found, subvolumes_below(folder, inside)) if found else ()
    return Spot(path, volume, inside, found, nested)
