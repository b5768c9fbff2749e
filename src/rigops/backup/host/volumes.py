"""File systems of this machine: their top levels, mounted for this program only."""

from __future__ import annotations

import ctypes
import os
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.btrfs import run_tool
from rigops.backup.host.errors import HostError
from rigops.backup.host.mounted import mount_of
from rigops.backup.host.subvolumes import (
    TOP_ID,
    Subvolume,
    file_system_uuid,
    find_nested,
    subvolume_at,
    subvolumes_below,
)
from rigops.hostside.shared.beneath import (
    Folder,
    is_private,
    open_beneath,
    open_folder,
    without_links,
)
from rigops.hostside.shared.bounded import ChildError, printable, run_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = "/run/rigops"

_NEW_MOUNTS = 0x20000  # CLONE_NEWNS
_RECURSIVE, _SLAVE = 0x4000, 0x80000  # MS_REC, MS_SLAVE


class Volume(NamedTuple):
    """`top`: where its top level is mounted, for this process and its children."""

    uuid: str
    device: str
    top: str

    def subvolumes(self) -> list[Subvolume]:
        with open_folder(self.top) as top:
            return list(subvolumes_below(top))


class Source(NamedTuple):
    """A live subvolume. `nested`: subvolumes inside, of which a snapshot has empty folders."""

    path: str
    folder: Folder
    volume: Volume
    subvolume: Subvolume
    nested: tuple[str, ...]  # paths below `path`


def leave_mounts_of_others() -> None:
    """Later mounts of this process end with it, however it ends."""
    c_library = ctypes.CDLL(None, use_errno=True)
    if c_library.unshare(_NEW_MOUNTS) != 0 or (
        c_library.mount(b"none", b"/", None, _RECURSIVE | _SLAVE, None) != 0
    ):
        raise HostError(f"no mount namespace: {os.strerror(ctypes.get_errno())}", "run it as root")


def open_volume(device: str, uuid: str) -> Volume:
    """Mounted once, however often it is asked for."""
    top = Path(RUN, "btrfs", uuid)
    if not os.path.ismount(top):
        top.mkdir(mode=0o700, parents=True, exist_ok=True)
        # nodev: a snapshot that was received may have a node of the machine's own disk in it.
        options = f"subvolid={TOP_ID},noatime,nodev,nosuid"
        run_tool(device, ["mount", "-t", "btrfs", "-o", options, device, str(top)])
    return Volume(uuid, device, str(top))


def find_disk(uuid: str) -> str | None:
    """The device with this file system; None where the disk is absent."""
    try:
        found = run_bounded(["blkid", "-U", uuid])
    except ChildError as error:
        raise HostError(f"{uuid}: blkid {error}", "see `dmesg`") from None
    return printable(found.output).strip() or None


def find_source(path: str) -> Source:
    """The subvolume at this path. It stays open, for as long as the program runs."""
    try:
        with open_folder(without_links(path)) as folder:
            spot = find_on_volume(folder)
            kept = Folder(path, os.dup(folder.number))
    except FileNotFoundError:
        raise HostError(
            f"{path} does not exist", "mount it, or remove it from subvolumes"
        ) from None
    except OSError as error:
        raise HostError(
            f"{path}: {error.filename} {error.strerror}", "declare the path that it leads to"
        ) from error
    subvolume = subvolume_at(kept, spot.inside)
    if subvolume is None:
        raise HostError(
            f"{path} is a directory, not a subvolume",
            "declare the subvolume that it is in (`btrfs subvolume show PATH`)",
        )
    nested = find_nested(subvolume, subvolumes_below(kept, spot.inside))
    return Source(path, kept, spot.volume, subvolume, nested)


class OnVolume(NamedTuple):
    """`inside`: the path from the top level, empty for itself."""

    volume: Volume
    inside: str


def find_on_volume(folder: Folder) -> OnVolume:
    """Where an open folder is on its btrfs."""
    mount = mount_of(folder)
    uuid = file_system_uuid(folder)
    if mount is None or not uuid:
        kind = mount.kind if mount else "no file system"
        raise HostError(
            f"{folder.path} is on {kind}, not on btrfs",
            "remove it from subvolumes, or mount the btrfs disk there",
        )
    volume = open_volume(mount.device, uuid)
    below = os.path.relpath(os.readlink(f"/proc/self/fd/{folder.number}"), mount.point)
    inside = os.path.normpath(f"{mount.root}/{below}").strip("/")
    with open_folder(f"{volume.top}/{inside}") as there:
        if not there.is_same(folder):
            raise HostError(f"{folder.path} is moved just now", "run it again")
    return OnVolume(volume, inside)


@contextmanager
def open_private(
    volume: Volume, inside: str, name: str, typed: str = "", *, makes: bool = False
) -> Iterator[Folder]:
    """A folder below the top level. A user who owns one on the way could show another one there.

    `name`: for people. `typed`: so much of the path is a person's choice, who answers for it.
    """
    start = os.path.normpath(f"{volume.top}/{typed}")
    with ExitStack() as opened:
        at = opened.enter_context(open_folder(start))
        for part in Path(volume.top, inside).relative_to(start).parts:
            if makes:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=at.number)
            at = opened.enter_context(open_beneath(at, part))
            if not is_private(os.fstat(at.number)):
                shown = os.path.relpath(at.path, volume.top)
                raise HostError(
                    f"{name}: others than root can write into {shown}, where snapshots are to be",
                    "see whose it is, and move it away, or give it to root with mode 0700",
                )
        yield at
