"""A place that has snapshots, in a folder for each subvolume: this disk, another one, or a server.

A copy is complete when it is read-only and knows what it was received from. What an interrupted
receive leaves behind is writable, and has no time of receiving. A complete one that a person made
writable has it.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rigops.concerns.snapshots.host.btrfs import (
    HostError,
    delete_subvolume,
    is_received_in_part,
    list_subvolumes,
    run_tool,
)
from rigops.concerns.snapshots.host.names import STORE, parse_snapshot_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.concerns.snapshots.host.volumes import Volume


class SnapshotCopy(NamedTuple):
    """`origin`: the UUID by which a stream refers to it, the same at every place that has it.

    `is_partial`: an interrupted receive left it. What is neither that nor complete is writable.
    """

    name: str
    uuid: str
    origin: str
    is_complete: bool
    is_partial: bool = False


class LocalPlace:
    """`name`: for people. `base`: below the top level; there are the folders."""

    def __init__(self, name: str, volume: Volume, base: str = STORE, *, receives: bool) -> None:
        self.name = name
        self.volume = volume
        self.base = base
        self._receives = receives  # else its snapshots are made here

    def path(self, folder: str, snapshot: str = "") -> Path:
        return Path(self.volume.top, self.base, folder, snapshot)

    def folders(self) -> list[str]:
        try:
            return sorted(one.name for one in self.path("").iterdir() if one.is_dir())
        except FileNotFoundError:
            return []

    def copies(self, folder: str) -> list[SnapshotCopy]:
        """By time. Names of others are left alone."""
        start = f"{self.base}/{folder}/"
        found = []
        for one in list_subvolumes(self.volume.top):
            name = one.path[len(start) :]
            taken = parse_snapshot_name(name)
            if not one.path.startswith(start) or taken is None:
                continue
            is_complete = one.is_read_only and bool(one.received_uuid or not self._receives)
            may_be_partial = not is_complete and taken.kind != "rollback"  # those are never sent
            is_partial = may_be_partial and is_received_in_part(str(self.path(folder, name)))
            origin = one.received_uuid or one.uuid
            found.append(SnapshotCopy(name, one.uuid, origin, is_complete, is_partial))
        return sorted(found)

    def delete(self, folder: str, snapshot: str) -> None:
        delete_subvolume(str(self.path(folder, snapshot)))

    def send(self, folder: str, snapshot: str, parent: str = "") -> subprocess.Popen[bytes]:
        """Its output is the stream; without the parent all of it. Both ends may fail."""
        return subprocess.Popen(
            self.send_words(folder, snapshot, parent),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def send_words(self, folder: str, snapshot: str, parent: str = "") -> list[str]:
        against = ["-p", str(self.path(folder, parent))] if parent else []
        return ["btrfs", "-q", "send", *against, str(self.path(folder, snapshot))]

    def receive(self, folder: str) -> subprocess.Popen[bytes]:
        """Its input is a stream. The snapshot gets the name that it has in the stream."""
        return subprocess.Popen(
            self.receive_words(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def receive_words(self, folder: str) -> list[str]:
        """The folder is made."""
        there = self.path(folder)
        there.mkdir(mode=0o700, parents=True, exist_ok=True)
        return ["btrfs", "-q", "receive", str(there)]

    def measure(self, folder: str, snapshot: str) -> int | None:
        """What all files of it have; on the disk it may be compressed."""
        with suppress(HostError, ValueError, IndexError):
            path = str(self.path(folder, snapshot))
            words = ["btrfs", "filesystem", "du", "-s", "--raw", path]
            return int(run_tool(path, words).splitlines()[-1].split()[0])
        return None

    def sync(self) -> None:
        """What was changed outlasts a power cut."""
        run_tool(self.name, ["btrfs", "-q", "filesystem", "sync", self.volume.top])

    def room(self) -> tuple[int, int]:
        """Free and all bytes."""
        found = os.statvfs(self.volume.top)
        return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else writes there meanwhile."""
        there = self.path("")
        there.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(str(there), os.O_RDONLY | os.O_DIRECTORY)
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
