"""File systems of this machine: their top levels, mounted where nobody else sees them."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from rigops.concerns.snapshots.host.btrfs import (
    TOP_ID,
    TOP_LEVEL,
    HostError,
    Subvolume,
    list_subvolumes,
    run_tool,
    subvolume_id,
)

RUN = "/run/rigops"
SUBVOLUME_INODE = 256  # of the first folder of every subvolume

_NEW_MOUNTS = 0x20000  # CLONE_NEWNS
_RECURSIVE, _SLAVE = 0x4000, 0x80000  # MS_REC, MS_SLAVE


class Volume(NamedTuple):
    """`top`: where its top level is mounted, for this process and its children."""

    uuid: str
    device: str
    top: str

    def subvolumes(self) -> list[Subvolume]:
        return list_subvolumes(self.top)


class MountedAt(NamedTuple):
    """`root`: the folder of the file system that is at `target`, from its top level."""

    kind: str
    uuid: str
    device: str
    root: str
    target: str


class Source(NamedTuple):
    """A live subvolume. `nested`: subvolumes inside, of which a snapshot has empty folders."""

    path: str
    volume: Volume
    subvolume: Subvolume
    nested: tuple[str, ...]  # paths below `path`


def leave_mounts_of_others() -> None:
    """What this process mounts from now on ends with it, however it ends."""
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
        options = f"subvolid={TOP_ID},noatime"
        run_tool(device, ["mount", "-t", "btrfs", "-o", options, device, str(top)])
    return Volume(uuid, device, str(top))


def find_disk(uuid: str) -> str | None:
    """The device with this file system; None where the disk is absent."""
    found = subprocess.run(
        ["blkid", "-U", uuid], check=False, capture_output=True, stdin=subprocess.DEVNULL
    )
    return found.stdout.decode().strip() or None


def find_source(path: str) -> Source:
    """The subvolume at this path."""
    if not Path(path).is_dir():
        raise HostError(f"{path} does not exist", "mount it, or remove it from subvolumes")
    kind, uuid, device = file_system_of(path)
    if kind != "btrfs":
        raise HostError(
            f"{path} is on {kind or 'no file system'}, not on btrfs",
            "remove it from subvolumes, or mount the btrfs disk there",
        )
    if Path(path).stat().st_ino != SUBVOLUME_INODE:
        raise HostError(
            f"{path} is a directory, not a subvolume",
            "declare the subvolume that it is in (`btrfs subvolume show PATH`)",
        )
    volume = open_volume(device, uuid)
    number = subvolume_id(path)
    every = volume.subvolumes()
    subvolume = next((one for one in every if one.number == number), TOP_LEVEL)
    return Source(path, volume, subvolume, find_nested(subvolume, every))


def file_system_of(path: str) -> tuple[str, str, str]:
    """Kind, UUID and device."""
    words = ["findmnt", "-n", "-v", "-o", "FSTYPE,UUID,SOURCE", "-T", path]
    kind, uuid, device = (*run_tool(path, words).split(None, 2), "", "", "")[:3]
    return kind, uuid, device.strip()


def find_mount(path: str) -> MountedAt:
    """What this path is on. `path`: without links."""
    words = ["findmnt", "-J", "-v", "-o", "FSTYPE,UUID,SOURCE,FSROOT,TARGET", "-T", path]
    try:
        found = json.loads(run_tool(path, words))["filesystems"][0]
    except (ValueError, LookupError) as error:
        raise HostError(f"{path}: findmnt gave no answer that can be read") from error
    columns = ("fstype", "uuid", "source", "fsroot", "target")
    return MountedAt(*(str(found.get(one) or "") for one in columns))


def find_nested(of: Subvolume, every: list[Subvolume]) -> tuple[str, ...]:
    """Writable ones; a snapshot that lies inside is no data of the subvolume."""
    inside: set[int] = {of.number}
    found: list[str] = []
    for one in sorted(every, key=lambda one: one.path.count("/")):
        if one.above in inside:
            inside.add(one.number)
            if not one.is_read_only:
                found.append(one.path[len(of.path) :].lstrip("/"))
    return tuple(sorted(found))
