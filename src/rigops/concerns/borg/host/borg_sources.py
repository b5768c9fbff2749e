"""What a backup reads: snapshots of btrfs in the places of the live paths."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rigops.concerns.borg.host.borg_process import BORG_CACHE, BORG_FILES, BORG_TEMPORARY
from rigops.concerns.borg.host.borg_state import read_os_error
from rigops.concerns.borg.host.source_tree import (
    MACHINE_FOLDERS,
    PROGRAM_FOLDERS,
    inside_tree,
    plan_tree,
)
from rigops.concerns.snapshots.host.btrfs import (
    TOP_LEVEL,
    HostError,
    delete_subvolume,
    list_subvolumes,
    take_snapshot,
)
from rigops.concerns.snapshots.host.names import folder_of
from rigops.concerns.snapshots.host.volumes import (
    SUBVOLUME_INODE,
    Volume,
    find_mount,
    find_nested,
    open_volume,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rigops.concerns.snapshots.host.output import Output

_STORE = ".rigops/borg"  # below the top level of a file system, beside the folder of snapshots


class BackupSource(NamedTuple):
    """`place`: the path without links. `subvolume`, below the top level; `inside`, below that.

    The two are empty for the top level, and for all of the subvolume.
    """

    path: str
    place: str
    volume: Volume
    subvolume: str
    inside: str

    @property
    def snapshot(self) -> str:
        return f"{_store_of(self.volume)}/{folder_of(self.subvolume)}"


@contextmanager
def frozen_sources(paths: Sequence[str], repository: str, output: Output) -> Iterator[list[str]]:
    """Those that can be backed up. What a killed run left is removed first.

    `repository`: its folder on this machine, or nothing. Meanwhile all paths are those of a tree
    with the snapshots in it.
    """
    present = [path for path in paths if _is_present(path, output)]
    sources = [found for found in (_find_source(path) for path in present) if found]
    _report_nested(sources, present, output)
    writable = _make_writable(repository)
    taken: list[str] = []
    try:
        for volume in dict.fromkeys(one.volume for one in sources):
            _remove_left_overs(volume)
        for one in sources:
            if one.snapshot not in taken:
                _take(one)
                taken.append(one.snapshot)
        if not sources:
            yield present
            return
        mounts = plan_tree(
            {one.place: f"{one.snapshot}/{one.inside}".rstrip("/") for one in sources},
            [_place_of(one) for one in (*present, *PROGRAM_FOLDERS) if os.path.lexists(one)],
            writable,
            lambda path: os.lstat(path).st_dev,
        )
        with inside_tree(mounts):
            yield present
    finally:
        os.chdir("/")
        for snapshot in taken:
            delete_subvolume(snapshot)


def _make_writable(repository: str) -> list[str]:
    """What borg writes, and where programs expect the running machine."""
    shutil.rmtree(BORG_TEMPORARY, ignore_errors=True)
    try:
        for folder in (BORG_FILES, BORG_TEMPORARY):
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise read_os_error("the backup", error) from error
    found = [BORG_FILES, BORG_CACHE, *MACHINE_FOLDERS, *([repository] if repository else [])]
    return [os.path.realpath(one) for one in found if os.path.isdir(one)]  # noqa: PTH112


def _is_present(path: str, output: Output) -> bool:
    if os.path.lexists(path):
        return True
    output.error(HostError(f"{path} does not exist", "mount it, or remove it from paths"))
    return False


def _find_source(path: str) -> BackupSource | None:
    """None: read live, because it is on no btrfs, or is no folder."""
    is_folder = os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114
    place = _place_of(path)
    mount = find_mount(place) if is_folder else None
    if mount is None or mount.kind != "btrfs":
        return None
    volume = open_volume(mount.device, mount.uuid)
    names = f"{mount.root}/{os.path.relpath(place, mount.target)}".split("/")
    below, inside = "/".join(name for name in names if name not in {"", "."}), ""
    if not _is_same_folder(place, f"{volume.top}/{below}"):
        return None
    while Path(f"{volume.top}/{below}").stat().st_ino != SUBVOLUME_INODE:
        below, name = os.path.split(below)
        inside = f"{name}/{inside}".rstrip("/")
    return BackupSource(path, place, volume, below, inside)


def _place_of(path: str) -> str:
    """Without links on the way to it."""
    return str(Path(path).parent.resolve() / Path(path).name)


def _is_same_folder(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)  # noqa: PTH121
    except OSError:
        return False


def _store_of(volume: Volume) -> str:
    return f"{volume.top}/{_STORE}"


def _take(source: BackupSource) -> None:
    try:
        Path(source.snapshot).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise read_os_error(source.path, error) from error
    take_snapshot(f"{source.volume.top}/{source.subvolume}", source.snapshot)


def _remove_left_overs(volume: Volume) -> None:
    store = Path(_store_of(volume))
    for one in store.iterdir() if store.is_dir() else ():
        if one.lstat().st_ino == SUBVOLUME_INODE:
            delete_subvolume(str(one))


def _report_nested(sources: Sequence[BackupSource], paths: Sequence[str], output: Output) -> None:
    for one in sources:
        every = list_subvolumes(one.volume.top)
        holder = next((found for found in every if found.path == one.subvolume), TOP_LEVEL)
        start = f"{one.inside}/" if one.inside else ""
        below = [
            name[len(start) :] for name in find_nested(holder, every) if name.startswith(start)
        ]
        missing = [name for name in below if f"{one.path.rstrip('/')}/{name}" not in paths]
        if missing:
            names = ", ".join(missing)
            output.notice(f"{one.path}: nested subvolumes are not in the backup: {names}")
