"""What a killed restore left behind: it is removed, or brought to its end."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from rigops.concerns.snapshots.host.btrfs import HostError, delete_subvolume
from rigops.concerns.snapshots.host.names import parse_snapshot_name
from rigops.concerns.snapshots.host.subvolume_swap import finish_moves
from rigops.concerns.snapshots.host.volumes import RUN, find_disk, open_volume
from rigops.concerns.snapshots.host.workspace import BEGINNING, forget, read_unfinished

if TYPE_CHECKING:
    from rigops.concerns.snapshots.host.output import Output


def clear_unfinished(output: Output) -> None:
    """Nothing else runs meanwhile. What cannot be reached now is left for the next run."""
    found = read_unfinished()
    if found is None:
        forget()  # there is none, or nobody can read it
        return
    try:
        if not _is_reachable(found.path):
            return
        if _remove(found.path):
            output.notice(f"removed {found.path}, which an interrupted restore left")
        if found.moves:
            for one in finish_moves(found.moves):
                output.notice(f"moved {one} into what an interrupted restore put in place")
    except (HostError, OSError) as error:
        output.notice(f"an interrupted restore left {found.path}: {error}")
        return
    forget()


def _remove(path: str) -> bool:
    name = os.path.basename(path)  # noqa: PTH119
    is_part = parse_snapshot_name(name) is not None and not _is_read_only(path)
    if not os.path.isdir(path) or not (is_part or name.startswith(BEGINNING)):  # noqa: PTH112
        return False
    if is_part:
        delete_subvolume(path)
        return True
    with suppress(HostError):  # a folder, or it has subvolumes inside
        delete_subvolume(path)
    if os.path.isdir(path):  # noqa: PTH112
        shutil.rmtree(path)
    return True


def _is_reachable(path: str) -> bool:
    """A top level is mounted for this process alone."""
    start = f"{RUN}/btrfs/"
    if not path.startswith(start):
        return True
    uuid = path[len(start) :].partition("/")[0]
    device = find_disk(uuid)
    if device is None:
        return False
    open_volume(device, uuid)
    return True


def _is_read_only(path: str) -> bool:
    """A snapshot that was received whole is."""
    words = ["btrfs", "property", "get", "-ts", path, "ro"]
    found = subprocess.run(words, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    return b"ro=false" not in found.stdout
