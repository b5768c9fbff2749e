"""Common parts of restores of archives: checks, and the description of what was done."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.btrfs import run_tool
from rigops.backup.host.errors import HostError
from rigops.backup.host.one_run import go_on_to_the_end
from rigops.backup.host.restore_frame import RestorePaths
from rigops.backup.utc import utc_text
from rigops.hostside.shared.beneath import open_beneath

if TYPE_CHECKING:
    from datetime import datetime

    from rigops.backup.host.documents import Restored
    from rigops.concerns.borg.host.archive_contents import Found
    from rigops.hostside.shared.beneath import Entry, Folder

_SPARE_ROOM = 16 << 20


class RestoreSource(NamedTuple):
    """The restored data. `snapshot`: the name of its source."""

    snapshot: str
    at: datetime
    place: str
    engine: str
    found: Found


def describe_restore(path: str, source: RestoreSource, target: str) -> Restored:
    return {
        "path": path,
        "kind": source.found.kind,
        "snapshot": source.snapshot,
        "at": utc_text(source.at),
        "place": source.place,
        "engine": source.engine,
        "restored_to": target,
        "bytes": source.found.bytes,
        "aside": None,
        "to_do": None,
    }


def refuse_to_overwrite(target: Entry) -> None:
    if target.look():
        raise HostError(
            f"{target.path} exists already and is not overwritten", "choose another DIR"
        )


def demand_room(above: Folder, size: int) -> None:
    room = os.statvfs(above.number)
    free = room.f_bavail * room.f_frsize
    if size + _SPARE_ROOM > free:
        raise HostError(
            f"{above.path} has {free >> 20} MiB free, the restore needs {size >> 20} MiB",
            "remove files there, or use --to DIR on another disk",
        )


def finish_extraction(made: Folder, paths: RestorePaths) -> None:
    """All of it is there and on the disk; from now on nothing is interrupted."""
    above, name = os.path.split(paths.inside)
    try:
        with open_beneath(made, above) as folder:
            is_there = not name or folder.entry(name).look() is not None
    except FileNotFoundError:
        is_there = False
    if not is_there:
        raise HostError(f"{paths.path} did not come back", "run it again")
    run_tool(paths.path, ["sync", "-f", made.at])
    go_on_to_the_end()
