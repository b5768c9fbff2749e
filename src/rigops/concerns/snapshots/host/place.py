"""A place that has snapshots, in a folder for each subvolume: this disk, another one, or a server.

A copy is complete when it is read-only and knows what it was received from. It is received into a
folder of its own, and gets its name here when it is; one that is not complete was made writable by
a person. To another folder btrfs moves nothing that is read-only: there a snapshot of it is made,
which is the same to every stream.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.btrfs import (
    FLUSH_S,
    BtrfsError,
    delete_subvolume,
    run_tool,
    take_snapshot,
)
from rigops.backup.host.errors import HostError
from rigops.backup.host.snapshot_names import STORE, is_folder_name, parse_snapshot_name
from rigops.backup.host.subvolumes import SUBVOLUME_INODE, Subvolume, subvolume_at
from rigops.backup.host.volumes import open_private
from rigops.concerns.snapshots.host.inside import is_file
from rigops.concerns.snapshots.host.receiving import (
    LACKS_PARENT,
    demand_chroot,
    receive_stream,
    remove_received,
)
from rigops.concerns.snapshots.host.send_stream import StreamCheck
from rigops.hostside.shared.beneath import open_beneath
from rigops.hostside.shared.bounded import BoundedChild

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from rigops.backup.host.volumes import Volume
    from rigops.hostside.shared.beneath import Folder


RECEIVING = "@receiving-"  # no folder of a subvolume begins with that


class SnapshotCopy(NamedTuple):
    """`origin`: the UUID by which a stream refers to it, the same at every place that has it."""

    name: str
    uuid: str
    origin: str
    is_complete: bool


class LocalPlace:
    """`name`: for people. `base`: below the top level; there are the folders."""

    def __init__(
        self,
        name: str,
        volume: Volume,
        base: str = STORE,
        *,
        receives: bool,
        is_typed: bool = False,
    ) -> None:
        self.name = name
        self.volume = volume
        self.base = base
        self._receives = receives  # else its snapshots are made here
        self._is_typed = is_typed  # the base is a person's choice, not of this program

    def path(self, folder: str, snapshot: str = "") -> Path:
        return Path(self.volume.top, self.base, folder, snapshot)

    def folders(self) -> list[str]:
        """Names of others are left alone, here and below."""
        return [name for name in self.names() if is_folder_name(name)]

    def names(self) -> list[str]:
        """Of all folders."""
        try:
            with self._open("") as there:
                return sorted(one for one in there.names() if there.entry(one).is_folder)
        except FileNotFoundError:
            return []

    def copies(self, folder: str) -> list[SnapshotCopy]:
        """By time."""
        try:
            with self._open(folder) as there:
                names = [one for one in there.names() if parse_snapshot_name(one)]
                return sorted(filter(None, (self._copy(there, one) for one in names)))
        except FileNotFoundError:
            return []

    def _copy(self, there: Folder, name: str) -> SnapshotCopy | None:
        one = _subvolume_in(there, name)
        if one is None:
            return None
        is_complete = one.is_read_only and bool(one.received_uuid or not self._receives)
        return SnapshotCopy(name, one.uuid, one.received_uuid or one.uuid, is_complete)

    def subvolume(self, folder: str, name: str) -> Subvolume | None:
        with self._open(folder) as there:
            return _subvolume_in(there, name)

    def make(self, folder: str) -> None:
        with self._open(folder, makes=True):
            pass

    def _open(self, folder: str, *, makes: bool = False) -> AbstractContextManager[Folder]:
        inside = os.path.relpath(self.path(folder), self.volume.top)
        typed = self.base if self._is_typed else ""
        return open_private(self.volume, inside, self.name, typed, makes=makes)

    def away(self, error: Exception) -> HostError | None:
        """What it means, if this place is not there any more."""
        del error
        if os.path.exists(self.volume.device):
            return None
        return HostError(
            f"{self.name}: the disk was disconnected while it was in use",
            "connect it: the next run sends what it lacks",
        )

    def delete(self, folder: str, snapshot: str) -> None:
        delete_subvolume(str(self.path(folder, snapshot)))

    def send(self, folder: str, snapshot: str, parent: str = "") -> BoundedChild:
        """Its output is the stream; without the parent all of it. Both ends may fail."""
        against = ["-p", str(self.path(folder, parent))] if parent else []
        words = ["btrfs", "-q", "send", *against, str(self.path(folder, snapshot))]
        return BoundedChild(words, stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"})

    def receive(
        self, folder: str, name: str, stream: int, count: Callable[[int], None], origin: str = ""
    ) -> None:
        """It is there whole or not at all, and nothing else is. `count` gets each part's bytes.

        `origin`: of the snapshot that is expected, where that is known.
        """
        what = f"{self.name}: receiving {name}"
        demand_chroot()
        self.clear()
        copies = self.copies(folder)
        if any(one.name == name for one in copies):
            raise HostError(f"{what}: it is there already", "remove the one that is not needed")
        parents = {
            one.origin: str(self.path(folder, one.name)) for one in copies if one.is_complete
        }
        known = {one.origin for each in self.folders() for one in self.copies(each)}
        check = StreamCheck(
            name, parents, lambda parent, path: is_file(parents[parent], path), known
        )
        private = f"{RECEIVING}{secrets.token_hex(8)}"
        try:
            self.make(private)
            receive_stream(what, self.path(private), check, stream, count)
            received = self._find_sound(private, check)
            if received is None or origin not in {"", check.origin}:
                raise HostError(f"{what}: something else arrived", "run it again")
            made_from = {"", *(one.uuid for one in copies if one.origin == check.parent)}
            if received.parent_uuid not in made_from:  # receive took another one of the disk
                raise BtrfsError(what, LACKS_PARENT)
            self.make(folder)
            take_snapshot(str(self.path(private, name)), str(self.path(folder, name)))
        except BrokenPipeError:  # of who reads the progress
            raise
        except OSError as error:
            raise BtrfsError(what, error.strerror or str(error)) from error
        finally:
            with suppress(HostError, OSError):  # the next run does it otherwise
                remove_received(self.path(private))

    def _find_sound(self, private: str, check: StreamCheck) -> Subvolume | None:
        there = self.path(private)
        if os.listdir(there) != [check.name]:
            return None
        found = self.subvolume(private, check.name)
        is_sound = (
            found is not None
            and os.lstat(there / check.name).st_ino == SUBVOLUME_INODE
            and found.is_read_only
            and found.received_uuid == check.origin
        )
        return found if is_sound else None

    def clear(self) -> bool:
        """Of what a killed run left. Whether there was something. Nobody else receives there."""
        left = [one for one in self.names() if one.startswith(RECEIVING)]
        for one in left:
            remove_received(self.path(one))
        return bool(left)

    def measure(self, folder: str, snapshot: str) -> int | None:
        """The size of all its files; on the disk it may be compressed."""
        with suppress(HostError, ValueError, IndexError):
            path = str(self.path(folder, snapshot))
            words = ["btrfs", "filesystem", "du", "-s", "--raw", path]
            return int(run_tool(path, words).splitlines()[-1].split()[0])
        return None

    def sync(self) -> None:
        """Changes outlast a power cut."""
        run_tool(self.name, ["btrfs", "-q", "filesystem", "sync", self.volume.top], FLUSH_S)

    def room(self) -> tuple[int, int]:
        """Free and all bytes."""
        found = os.statvfs(self.volume.top)
        return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else writes there meanwhile."""
        self.make("")
        folder = os.open(str(self.path("")), os.O_RDONLY | os.O_DIRECTORY)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise HostError(
                    f"{self.name} is in use by another run", "wait for it: `lslocks`"
                ) from None
            yield
        finally:
            os.close(folder)


def _subvolume_in(there: Folder, name: str) -> Subvolume | None:
    """None: nothing, or something else, has this name."""
    try:
        with open_beneath(there, name) as at:
            return subvolume_at(at)
    except (FileNotFoundError, NotADirectoryError):
        return None
