"""All places that have snapshots of this machine, as list and restore read them."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.btrfs import BtrfsError, last_line, run_tool
from rigops.backup.host.errors import HostError
from rigops.backup.host.volumes import open_volume
from rigops.concerns.snapshots.host.copying import SPARE, copy_tree, measure_tree
from rigops.concerns.snapshots.host.inside import find_inside
from rigops.concerns.snapshots.host.place import LocalPlace
from rigops.concerns.snapshots.host.pump import pump
from rigops.concerns.snapshots.host.remote import RemotePlace
from rigops.concerns.snapshots.host.targets import open_target
from rigops.hostside.shared.beneath import make_private, move
from rigops.hostside.shared.bounded import SILENCE_S, BoundedChild, ChildError

if TYPE_CHECKING:
    from rigops.backup.host.snapshot_settings import SnapshotSettings
    from rigops.concerns.snapshots.host.place import SnapshotCopy
    from rigops.concerns.snapshots.host.transfer import StreamMeter
    from rigops.hostside.shared.beneath import Entry

LOCAL = "local"
PRESENT = "present"

_MOST_MEMORY = 1 << 30  # of tar, which holds what an archive calls the head of a file
_EXTRACT = ("--xattrs", "--xattrs-include=*", "--acls", "--numeric-owner", "--same-owner")


class DiskStore:
    """A btrfs of this machine."""

    def __init__(self, place: LocalPlace) -> None:
        self.place = place
        self.name = place.name
        self.uuid = place.volume.uuid

    def folders(self) -> list[str]:
        return self.place.folders()

    def copies(self, folder: str) -> list[SnapshotCopy]:
        """Whole ones: nothing is read from a torn one."""
        return [one for one in self.place.copies(folder) if one.is_complete]

    def root(self, folder: str, name: str) -> str:
        return str(self.place.path(folder, name))

    def kind_of(self, folder: str, name: str, inside: str) -> str:
        """Of what is there; empty where nothing is."""
        found = find_inside(self.root(folder, name), inside)
        if found is None:
            return ""
        return "directory" if stat.S_ISDIR(found.st_mode) else "file"

    def measure(self, folder: str, name: str, inside: str) -> int | None:
        return measure_tree(self._path(folder, name, inside))

    def copy(self, folder: str, name: str, inside: str, target: Entry, meter: StreamMeter) -> None:
        copy_tree(self._path(folder, name, inside), target.at, meter)

    def _path(self, folder: str, name: str, inside: str) -> str:
        """Nothing in a snapshot that is whole ever changes."""
        if not self.kind_of(folder, name, inside):
            raise HostError(f"{inside} is not in {name}", "run it again")
        return f"{self.root(folder, name)}/{inside}".rstrip("/")


class ServerStore:
    """A server, which gives streams only. Its file system is no other's here."""

    uuid = ""

    def __init__(self, place: RemotePlace) -> None:
        self.place = place
        self.name = place.name

    def folders(self) -> list[str]:
        return self.place.folders()

    def copies(self, folder: str) -> list[SnapshotCopy]:
        return [one for one in self.place.copies(folder) if one.is_complete]

    def kind_of(self, folder: str, name: str, inside: str) -> str:
        return self.place.kind_of(folder, name, inside or ".")[0]

    def measure(self, folder: str, name: str, inside: str) -> int | None:
        """Known of a file only."""
        kind, size = self.place.kind_of(folder, name, inside or ".")
        return size if kind == "file" else None

    def copy(self, folder: str, name: str, inside: str, target: Entry, meter: StreamMeter) -> None:
        """Its stream is unpacked beside, and only the requested name moves.

        An archive that has no end ends where the disk would be full.
        """
        room = os.statvfs(target.folder.number)
        most = room.f_bavail * room.f_frsize - SPARE

        def count(moved: int) -> None:
            meter.count(moved)
            if meter.done > most:
                raise HostError(f"{what} takes more than the {most >> 20} MiB that are free")

        what = f"{self.name}: reading {name}"
        unpacked = target.folder.entry("unpacked")
        with make_private(unpacked) as beside:
            limit = f"--as={_MOST_MEMORY}"
            words = ["prlimit", limit, "tar", "--extract", *_EXTRACT, "-C", beside.at]
            with self.place.tar(folder, name, inside or ".") as source, _start(words) as sink:
                try:
                    pump(source.output.fileno(), sink.input.fileno(), count)
                    source.output.close()
                    sink.input.close()
                    codes = [one.wait(SILENCE_S) for one in (source, sink)]
                except ChildError as error:
                    raise HostError(f"{what}: {error}", "run it again") from None
                if any(codes):
                    said = sink.errors, source.errors
                    raise BtrfsError(what, next(filter(last_line, said), "it ended early"))
            got = beside.entry(inside.rpartition("/")[2]) if inside else unpacked
            if got.look() is None:
                raise HostError(f"{what}: something else arrived", "run it again")
            move(got, target)


class MissingStore(NamedTuple):
    """One that cannot be asked now: absent, unreachable or failed."""

    name: str
    state: str
    error: str
    fix: str

    def folders(self) -> list[str]:
        return []


def find_local_stores() -> list[DiskStore]:
    """One for each mounted btrfs that has snapshots."""
    try:
        said = run_tool(
            "findmnt", ["findmnt", "-n", "-v", "-r", "-t", "btrfs", "-o", "UUID,SOURCE"]
        )
    except BtrfsError:  # it finds none
        return []
    devices = dict(row.split(" ", 1) for row in said.splitlines() if " " in row.strip())
    found = [
        DiskStore(LocalPlace(LOCAL, open_volume(device, uuid), receives=False))
        for uuid, device in sorted(devices.items())
    ]
    return [one for one in found if Path(one.root("", "")).is_dir()]


def find_target(settings: SnapshotSettings | None) -> DiskStore | ServerStore | MissingStore | None:
    target = open_target(settings) if settings else None
    if target is None:
        return None
    if isinstance(target.place, RemotePlace):
        return ServerStore(target.place)
    if target.place:
        return DiskStore(target.place)
    fix = target.error.fix if target.error else ""
    error = target.error.message if target.error else f"{target.name} is {target.state}"
    connect = "connect the disk" if target.state == "absent" else "see `rigops snapshots HOST`"
    return MissingStore(target.name, target.state, error, fix or connect)


def _start(words: list[str]) -> BoundedChild:
    return BoundedChild(words, stdin=subprocess.PIPE)
