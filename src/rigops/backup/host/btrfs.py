"""The btrfs tool: its questions, and the meaning of its refusals."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rigops.backup.host.errors import HostError
from rigops.hostside.shared.bounded import SILENCE_S, ChildError, run_bounded

if TYPE_CHECKING:
    from collections.abc import Sequence

FLUSH_S = 3600.0  # what memory has of a file system goes to a slow disk

_HANGS = "see `dmesg` and the cables: a disk that does not answer hangs its users"
_BTRFS_MEANINGS = (
    ("No space left on device", "the file system is full", "remove files or snapshots there"),
    (
        "Read-only file system",
        "the file system is read-only",
        "see `dmesg` and `btrfs device stats`: btrfs turns read-only when it finds an error",
    ),
    (
        "cannot find parent subvolume",
        "the copy that this one builds upon is gone there",
        "run it again: a full copy is sent",
    ),
    (
        "Text file busy",
        "a swap file in it is active, and btrfs takes no snapshot of that",
        "move the swap file into a subvolume of its own (`swapon --show`)",
    ),
    (
        "Directory not empty",
        "subvolumes are inside",
        "remove these first: `btrfs subvolume delete`",
    ),
    ("Disk quota exceeded", "a quota is exceeded", "raise it: `btrfs qgroup show`"),
    *(
        (shape, "the disk does not read or write", "see `dmesg` and `btrfs device stats`")
        for shape in ("Input/output error", "can't read superblock")
    ),
    ("special device", "the disk is not connected any more", "connect it, and mount it again"),
    ("not a btrfs filesystem", "this is no btrfs file system", "mount the right disk there"),
    ("doesn't belong to btrfs", "this is no btrfs file system", "mount the right disk there"),
)


class BtrfsError(HostError):
    """`stderr`: of the tool."""

    def __init__(self, what: str, stderr: str) -> None:
        meaning, fix = next(
            ((meaning, fix) for shape, meaning, fix in _BTRFS_MEANINGS if shape in stderr),
            (last_line(stderr) or "btrfs failed without a message", ""),
        )
        super().__init__(f"{what}: {meaning}", fix)
        self.stderr = stderr
        self.is_full = "No space left" in stderr
        self.lacks_parent = "cannot find parent subvolume" in stderr


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def run_tool(what: str, words: Sequence[str], most_s: float = SILENCE_S) -> str:
    """`what`: the subject of an error."""
    try:
        done = run_bounded(words, most_s=most_s, env={**os.environ, "LC_ALL": "C"})
    except ChildError as error:
        raise HostError(f"{what}: {words[0]} {error}", _HANGS) from None
    if done.code != 0:
        raise BtrfsError(what, done.errors)
    return done.output.decode(errors="surrogateescape")


def take_snapshot(source: str, target: str, *, read_only: bool = True) -> None:
    """`target` must not exist: btrfs would put the snapshot into it."""
    if os.path.lexists(target):
        raise HostError(f"{target} exists already")
    option = ["-r"] if read_only else []
    run_tool(source, ["btrfs", "-q", "subvolume", "snapshot", *option, source, target], FLUSH_S)


def create_subvolume(path: str) -> None:
    run_tool(path, ["btrfs", "-q", "subvolume", "create", path])


def delete_subvolume(path: str) -> None:
    run_tool(path, ["btrfs", "-q", "subvolume", "delete", "--commit-each", path], FLUSH_S)
