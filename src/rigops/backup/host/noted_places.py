"""Compares the file systems that declared paths are on with those of their last backups."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.backup.file_systems import (
    FILE_SYSTEMS_FILE,
    FileSystem,
    NotedPath,
    noted_text,
    parse_noted,
)
from rigops.backup.host.errors import HostError, as_host_error
from rigops.backup.host.mounted import mount_of
from rigops.backup.host.paths import is_inside
from rigops.backup.host.state_file import replace_file
from rigops.backup.host.subvolumes import file_system_uuid
from rigops.backup.host.volumes import RUN
from rigops.hostside.shared.beneath import open_folder, without_links
from rigops.hostside.shared.bounded import ChildError, printable, run_bounded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.hostside.shared.beneath import Folder

_PLACES_LOCK = f"{RUN}/file_systems.lock"


def find_place(path: str, *, accepts_moved: bool = False) -> NotedPath | None:
    """Where it is now. An error where that is another file system than at its last backup.

    None: it is not there, or a user's link leads to it, which opening it reports.
    """
    found = _look_at(path)
    before = read_noted().get(path)
    if found is None or before is None or accepts_moved:
        return found
    if before.file_system.is_same(found.file_system):
        return found
    raise HostError(
        f"{path} is on another file system than at the last backup (was {before.file_system}, "
        f"now {found.file_system})",
        "mount the right one; if it moved for good, run `rigops backup HOST --moved`",
    )


def is_elsewhere(path: str) -> bool:
    """On another file system than at its last backup."""
    try:
        find_place(path)
    except HostError:
        return True
    return False


def demand_mounted(path: str) -> None:
    """That a restore does not fill the mount point of a disk that is not mounted."""
    noted = read_noted()
    before = next((noted[one] for one in noted if is_inside(path, one)), None)
    root = _look_at("/")
    if before is None or root is None or before.file_system.is_same(root.file_system):
        return
    above = path
    while (found := _look_at(above)) is None:
        above = os.path.dirname(above)
    if found.file_system.is_same(root.file_system):
        raise HostError(
            f"{path} was on {before.file_system}, and no file system is mounted there now",
            "mount one first, or use --to DIR",
        )


def note_restored(path: str) -> None:
    """Declared paths at the path, or below it, have come back at their present place.

    Below, a folder without anything may be where another subvolume was.
    """
    noted = [one for one in read_noted() if is_inside(one, path)]
    below = [one for one in noted if one == path or _has_data(one)]
    note_places({one: found for one in below if (found := _look_at(one))})


def note_places(found: Mapping[str, NotedPath]) -> None:
    """Engines may do that at the same time."""
    try:
        Path(_PLACES_LOCK).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with open(os.open(_PLACES_LOCK, os.O_RDWR | os.O_CREAT, 0o600), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = read_noted()
            if any(before.get(path) != one for path, one in found.items()):
                file = Path(FILE_SYSTEMS_FILE)
                file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                replace_file(file, noted_text({**before, **found}), 0o644)
    except OSError as error:
        raise as_host_error("the state", error) from error


def read_noted() -> dict[str, NotedPath]:
    """Empty where there is none that can be read."""
    try:
        text = Path(FILE_SYSTEMS_FILE).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return {}
    return parse_noted(text) or {}


def _look_at(path: str) -> NotedPath | None:
    try:
        above, name = os.path.split(path)
        place = os.path.join(without_links(above), name)
        is_folder = os.path.isdir(place)
        if is_folder:
            place = without_links(place)
        elif not os.path.lexists(place):
            return None
        with open_folder(place if is_folder else os.path.dirname(place)) as folder:
            return NotedPath(place, _file_system_of(folder))
    except OSError:
        return None


def _file_system_of(folder: Folder) -> FileSystem:
    mount = mount_of(folder)
    if mount is None:
        raise HostError(f"{folder.path} was unmounted just now", "run it again")
    uuid = file_system_uuid(folder) if mount.kind == "btrfs" else _device_uuid(mount.device)
    return FileSystem(mount.kind, mount.device, uuid)


def _device_uuid(device: str) -> str:
    if not device.startswith("/dev/"):
        return ""
    try:
        found = run_bounded(["blkid", "-p", "-s", "UUID", "-o", "value", device])
    except (ChildError, OSError):
        return ""
    return printable(found.output).strip()


def _has_data(path: str) -> bool:
    try:
        with os.scandir(path) as inside:
            return next(inside, None) is not None
    except NotADirectoryError:
        return True
    except OSError:
        return False
