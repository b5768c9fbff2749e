"""All places that have snapshots of this machine, as list and restore read them."""

from __future__ import annotations

import os
import stat
import subprocess
import tarfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from rigops.concerns.snapshots.host.btrfs import BtrfsError, HostError, last_line
from rigops.concerns.snapshots.host.copying import copy_tree, measure_tree
from rigops.concerns.snapshots.host.place import LocalPlace
from rigops.concerns.snapshots.host.pump import pump
from rigops.concerns.snapshots.host.remote import RemotePlace
from rigops.concerns.snapshots.host.targets import open_target
from rigops.concerns.snapshots.host.transfer import ended, errors_of
from rigops.concerns.snapshots.host.volumes import open_volume

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.concerns.snapshots.host.place import SnapshotCopy
    from rigops.concerns.snapshots.host.settings import SnapshotSettings
    from rigops.concerns.snapshots.host.transfer import StreamMeter

LOCAL = "local"
PRESENT = "present"

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
        found = self._find(folder, name, inside)
        if found is None:
            return ""
        return "directory" if stat.S_ISDIR(os.lstat(found).st_mode) else "file"

    def measure(self, folder: str, name: str, inside: str) -> int | None:
        return measure_tree(self._demand(folder, name, inside))

    def copy(self, folder: str, name: str, inside: str, target: str, meter: StreamMeter) -> None:
        copy_tree(self._demand(folder, name, inside), target, meter)

    def _demand(self, folder: str, name: str, inside: str) -> str:
        found = self._find(folder, name, inside)
        if found is None:
            raise HostError(f"{inside} is not in {name}", "run it again")
        return found

    def _find(self, folder: str, name: str, inside: str) -> str | None:
        """Never through a symbolic link, which would lead out of the snapshot."""
        at = self.root(folder, name)
        *above, last = inside.split("/")
        for one in above:
            at = f"{at}/{one}"
            if os.path.islink(at) or not os.path.isdir(at):  # noqa: PTH112, PTH114
                return None
        at = f"{at}/{last}" if inside else at
        return at if os.path.lexists(at) else None


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
        first = self._first(folder, name, inside)
        if first is None:
            return ""
        return "directory" if first.isdir() else "file"

    def measure(self, folder: str, name: str, inside: str) -> int | None:
        """Known of a file only."""
        first = self._first(folder, name, inside)
        return None if first is None or first.isdir() else first.size

    def copy(self, folder: str, name: str, inside: str, target: str, meter: StreamMeter) -> None:
        """The names in the stream begin at the top: it is unpacked beside, and moved."""
        beside = f"{target}.unpacked"
        Path(beside).mkdir(mode=0o700)
        words = ["tar", "--extract", *_EXTRACT, "-C", beside]
        what = f"{self.name}: reading {name}"
        with self._tar(folder, name, inside) as source, ended(_start(words)) as sink:
            if source.stdout and sink.stdin:
                pump(source.stdout.fileno(), sink.stdin.fileno(), meter.count)
                source.stdout.close()
                sink.stdin.close()
            for process in (source, sink):
                process.wait()
            said = [errors_of(process) for process in (sink, source)]
            if sink.returncode != 0 or source.returncode != 0:
                raise BtrfsError(what, next(filter(last_line, said), "it ended early"))
        Path(f"{beside}/{inside}").rename(target)

    def _first(self, folder: str, name: str, inside: str) -> tarfile.TarInfo | None:
        with self._tar(folder, name, inside) as source:
            try:
                with tarfile.open(fileobj=cast("IO[bytes]", source.stdout), mode="r|") as stream:
                    return stream.next()
            except tarfile.ReadError:
                said = errors_of(source)
                source.wait()
                if "is not in" in said or "leads out of" in said:
                    return None
                raise HostError(f"{self.name}: {last_line(said) or 'no answer'}") from None

    @contextmanager
    def _tar(self, folder: str, name: str, inside: str) -> Iterator[subprocess.Popen[bytes]]:
        with ended(self.place.tar(folder, name, inside or ".")) as process:
            yield process


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
    words = ["findmnt", "-n", "-v", "-r", "-t", "btrfs", "-o", "UUID,SOURCE"]
    said = subprocess.run(words, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    devices = dict(
        row.split(" ", 1) for row in said.stdout.decode().splitlines() if " " in row.strip()
    )
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


def _start(words: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
