"""Remains of a killed restore: they are removed, or the restore is finished."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rigops.backup.host.btrfs import delete_subvolume
from rigops.backup.host.errors import HostError
from rigops.backup.host.nested_moves import move_nested
from rigops.backup.host.snapshot_names import parse_snapshot_name
from rigops.backup.host.subvolumes import file_system_uuid, number_at, subvolume_at
from rigops.backup.host.volumes import RUN, find_disk, find_on_volume, open_volume
from rigops.backup.host.workspace import (
    BEGINNING,
    Moves,
    forget,
    read_unfinished,
    remove_tree,
)
from rigops.hostside.shared.beneath import open_beneath, open_folder, open_parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.backup.host.output import Output
    from rigops.hostside.shared.beneath import Folder


def clear_unfinished(output: Output) -> None:
    """Nothing else runs meanwhile. Places that cannot be reached now are left for the next run."""
    found = read_unfinished()
    if found is None:
        forget()  # there is none, or it is unreadable
        return
    try:
        if not _is_reachable(found.path):
            return
        if _remove(found.path):
            output.notice(f"removed {found.path}, which an interrupted restore left")
        if found.moves:
            for one in _finish_moves(found.moves):
                output.notice(f"moved {one} into the place that an interrupted restore filled")
    except FileNotFoundError:
        pass  # a user has moved what is above
    except (HostError, OSError) as error:
        output.notice(f"an interrupted restore left {found.path}: {error}")
        if not isinstance(error, NotADirectoryError):  # a user has put a link on the way
            return
    forget()


def _remove(path: str) -> bool:
    with open_parent(path) as live, _on_own_mount(live.folder) as above:
        entry = above.entry(live.name)
        if not entry.is_folder:
            return False
        with open_beneath(entry.folder, entry.name) as folder:
            found = subvolume_at(folder)
        is_snapshot = parse_snapshot_name(entry.name) is not None
        if is_snapshot and found and not found.is_read_only:  # one that was received whole is
            delete_subvolume(entry.at)
            return True
        if is_snapshot or not entry.name.startswith(BEGINNING):
            return False
        if found:
            with suppress(HostError):  # it has subvolumes inside
                delete_subvolume(entry.at)
        remove_tree(entry)
        return True


@contextmanager
def _on_own_mount(folder: Folder) -> Iterator[Folder]:
    """Of a btrfs. To the timer's service every live path is read-only."""
    if not file_system_uuid(folder):
        yield folder
        return
    volume, inside = find_on_volume(folder)
    with open_folder(f"{volume.top}/{inside}") as there:
        yield there


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


def _finish_moves(moves: Moves) -> list[str]:
    """Those that a killed swap had not moved yet; none where the two were not swapped."""
    left = [one for one in moves.nested if number_at(f"{moves.old}/{one}")]
    move_nested(moves.old, moves.new, left)
    return left
