"""The btrfs tool: its questions, and the meaning of its refusals."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TOP_ID = 5  # of the subvolume that every btrfs begins with

_LIST_ROW = re.compile(
    r"ID (?P<id>[0-9]+) gen [0-9]+ (?:cgen [0-9]+ )?parent (?P<parent>[0-9]+) top level [0-9]+ "
    r"parent_uuid (?P<parent_uuid>\S+)\s+received_uuid (?P<received_uuid>\S+)\s+"
    r"uuid (?P<uuid>\S+) path (?P<path>.*)"
)
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
    (
        "Input/output error",
        "the disk does not read or write",
        "see `dmesg` and `btrfs device stats`",
    ),
    ("not a btrfs filesystem", "this is no btrfs file system", "mount the right disk there"),
    ("doesn't belong to btrfs", "this is no btrfs file system", "mount the right disk there"),
)


class HostError(Exception):
    """What a person reads: WHAT, and what to do about it."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


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


class Subvolume(NamedTuple):
    """`path`: from the top level, which itself is empty. UUIDs are empty where there is none."""

    number: int
    above: int
    path: str
    uuid: str
    parent_uuid: str
    received_uuid: str
    is_read_only: bool


TOP_LEVEL = Subvolume(TOP_ID, 0, "", "", "", "", is_read_only=False)


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def run_tool(what: str, words: Sequence[str]) -> str:
    """`what`: the subject of an error."""
    done = subprocess.run(
        words,
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C"},
    )
    if done.returncode != 0:
        raise BtrfsError(what, done.stderr.decode(errors="replace"))
    return done.stdout.decode(errors="surrogateescape")


def list_subvolumes(top: str) -> list[Subvolume]:
    """All of a file system whose top level is mounted at `top`."""
    every = ["btrfs", "subvolume", "list", "-p", "-u", "-q", "-R"]
    read_only = {one.number for one in _rows(run_tool(top, [*every, "-r", top]), frozenset())}
    return list(_rows(run_tool(top, [*every, top]), read_only))


def _rows(text: str, read_only: Iterable[int]) -> Iterable[Subvolume]:
    for line in text.splitlines():
        row = _LIST_ROW.fullmatch(line)
        if row:
            number = int(row["id"])
            yield Subvolume(
                number=number,
                above=int(row["parent"]),
                path=row["path"],
                uuid=_uuid_of(row["uuid"]),
                parent_uuid=_uuid_of(row["parent_uuid"]),
                received_uuid=_uuid_of(row["received_uuid"]),
                is_read_only=number in read_only,
            )


def _uuid_of(text: str) -> str:
    return "" if text == "-" else text


def subvolume_id(path: str) -> int:
    return int(run_tool(path, ["btrfs", "inspect-internal", "rootid", path]))


def take_snapshot(source: str, target: str, *, read_only: bool = True) -> None:
    """`target` must not exist: btrfs would put the snapshot into it."""
    if os.path.lexists(target):
        raise HostError(f"{target} exists already")
    option = ["-r"] if read_only else []
    run_tool(source, ["btrfs", "-q", "subvolume", "snapshot", *option, source, target])


def is_received_in_part(path: str) -> bool:
    """Of a writable one: a receive that has ended leaves its time, whoever writes to it later."""
    shown = run_tool(path, ["btrfs", "subvolume", "show", path])
    return re.search(r"^\s*Receive time:\s*-$", shown, re.MULTILINE) is not None


def create_subvolume(path: str) -> None:
    run_tool(path, ["btrfs", "-q", "subvolume", "create", path])


def delete_subvolume(path: str) -> None:
    run_tool(path, ["btrfs", "-q", "subvolume", "delete", "--commit-each", path])
