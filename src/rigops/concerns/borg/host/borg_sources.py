"""The sources of a backup: snapshots of btrfs in the places of the live paths."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.btrfs import delete_subvolume, take_snapshot
from rigops.backup.host.errors import HostError, as_host_error
from rigops.backup.host.noted_places import find_place
from rigops.backup.host.snapshot_names import folder_of
from rigops.backup.host.subvolumes import (
    SUBVOLUME_INODE,
    file_system_uuid,
    subvolume_at,
    subvolumes_below,
)
from rigops.backup.host.volumes import Volume, find_on_volume, open_private
from rigops.concerns.borg.host.borg_process import BORG_CACHE, BORG_FILES, BORG_TEMPORARY
from rigops.concerns.borg.host.source_tree import (
    MACHINE_FOLDERS,
    PROGRAM_FOLDERS,
    inside_tree,
    plan_tree,
)
from rigops.hostside.shared.beneath import open_folder, without_links

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rigops.backup.file_systems import NotedPath
    from rigops.backup.host.output import Output

_STORE = ".rigops/borg"  # below the top level of a file system, beside the folder of snapshots


class BackupSource(NamedTuple):
    """`place`: the path without links. `subvolume`, below the top level; `inside`, below that.

    The two are empty for the top level, and for all of the subvolume. `number`: of the subvolume.
    """

    path: str
    place: str
    volume: Volume
    subvolume: str
    inside: str
    number: int

    @property
    def snapshot(self) -> str:
        return f"{_store_of(self.volume)}/{folder_of(self.subvolume)}"


@contextmanager
def frozen_sources(
    paths: Sequence[str], repository: str, output: Output, *, accepts_moved: bool = False
) -> Iterator[dict[str, NotedPath]]:
    """Those that can be backed up, and where they are. Remains of a killed run are removed first.

    `repository`: its folder on this machine, or nothing. Meanwhile all paths are those of a tree
    with the snapshots in it.
    """
    places: dict[str, str] = {}
    noted: dict[str, NotedPath] = {}
    for path in paths:
        place = _find_place(path, output)
        try:
            now = find_place(path, accepts_moved=accepts_moved) if place else None
        except HostError as refusal:
            output.error(refusal)
            continue
        if place and now:
            places[path], noted[path] = place, now
    present = list(places)
    sources = [found for found in (_find_source(*one) for one in places.items()) if found]
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
            yield noted
            return
        mounts = plan_tree(
            {one.place: f"{one.snapshot}/{one.inside}".rstrip("/") for one in sources},
            [*places.values(), *map(without_links, filter(os.path.lexists, PROGRAM_FOLDERS))],
            writable,
            lambda path: os.lstat(path).st_dev,
        )
        with inside_tree(mounts) as refused:
            for error in refused.values():
                output.error(error)
            yield {path: noted[path] for path in present if places[path] not in refused}
    finally:
        os.chdir("/")
        for snapshot in taken:
            delete_subvolume(snapshot)


def _make_writable(repository: str) -> list[str]:
    """Folders of borg, and those where programs expect the running machine."""
    shutil.rmtree(BORG_TEMPORARY, ignore_errors=True)
    try:
        for folder in (BORG_FILES, BORG_TEMPORARY):
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise as_host_error("the backup", error) from error
    found = [BORG_FILES, BORG_CACHE, *MACHINE_FOLDERS, *([repository] if repository else [])]
    return [os.path.realpath(one) for one in found if os.path.isdir(one)]


def _find_place(path: str, output: Output) -> str:
    """The path without links on the way to it; empty where it is not to be backed up."""
    above, name = os.path.split(path)
    try:
        place = os.path.join(without_links(above), name)
        if os.path.lexists(place):
            return place
        output.error(HostError(f"{path} does not exist", "mount it, or remove it from paths"))
    except OSError as error:
        output.error(
            HostError(
                f"{path}: {error.filename} {error.strerror}", "declare the path that it leads to"
            )
        )
    return ""


def _find_source(path: str, place: str) -> BackupSource | None:
    """None: read live, because it is on no btrfs, or is no folder."""
    try:
        with open_folder(place) as folder:
            if not file_system_uuid(folder):
                return None
            volume, below = find_on_volume(folder)
    except OSError:
        return None
    inside = ""
    while True:
        with open_folder(f"{volume.top}/{below}") as at:
            subvolume = subvolume_at(at)
        if subvolume:
            return BackupSource(path, place, volume, below, inside, subvolume.number)
        below, name = os.path.split(below)
        inside = f"{name}/{inside}".rstrip("/")


def _store_of(volume: Volume) -> str:
    return f"{volume.top}/{_STORE}"


def _take(source: BackupSource) -> None:
    try:
        with open_private(source.volume, _STORE, source.path, makes=True):
            pass
        with open_folder(f"{source.volume.top}/{source.subvolume}") as folder:
            found = subvolume_at(folder)
            if found is None or found.number != source.number:
                raise HostError(f"{source.path} was moved just now", "run it again")
            take_snapshot(folder.at, source.snapshot)
    except OSError as error:
        raise as_host_error(source.path, error) from error


def _remove_left_overs(volume: Volume) -> None:
    store = Path(_store_of(volume))
    for one in store.iterdir() if store.is_dir() else ():
        if one.lstat().st_ino == SUBVOLUME_INODE:
            delete_subvolume(str(one))


def _report_nested(sources: Sequence[BackupSource], paths: Sequence[str], output: Output) -> None:
    for one in sources:
        with open_folder(f"{one.volume.top}/{one.subvolume}") as folder:
            every = [found for found in subvolumes_below(folder) if not found.is_read_only]
        start = f"{one.inside}/" if one.inside else ""
        below = [found.path[len(start) :] for found in every if found.path.startswith(start)]
        missing = [name for name in below if f"{one.path.rstrip('/')}/{name}" not in paths]
        if missing:
            names = ", ".join(missing)
            output.notice(f"{one.path}: nested subvolumes are not in the backup: {names}")
