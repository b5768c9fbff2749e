"""Common parts of restores of archives: options, checks, and answer."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from rigops.backup.host.btrfs import run_tool
from rigops.backup.host.errors import HostError, restore_error
from rigops.backup.host.one_run import Interrupted, go_on_to_the_end
from rigops.backup.host.paths import path_beside
from rigops.backup.utc import utc_text
from rigops.hostside.shared.beneath import open_beneath

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from datetime import datetime

    from rigops.backup.host.documents import Restored
    from rigops.backup.host.output import Output
    from rigops.concerns.borg.host.archive_contents import Found
    from rigops.hostside.shared.beneath import Entry, Folder

_SPARE_ROOM = 16 << 20


class RestorePaths(NamedTuple):
    """Absolute. `to`: the folder to restore into; empty: beside what is there."""

    path: str
    to: str

    @property
    def inside(self) -> str:
        """As archives have it."""
        return self.path.strip("/")

    def target(self, at: datetime) -> str:
        return path_beside(self.path, self.to, at)


class RestoreSource(NamedTuple):
    """The restored data. `snapshot`: the name of its source."""

    snapshot: str
    at: datetime
    place: str
    engine: str
    found: Found


def add_restore_options(commands: Any, purpose: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser("restore", help=purpose)
    parser.add_argument("--path", required=True)
    parser.add_argument("--at", default="", help="a time in UTC, or the name of an archive")
    parser.add_argument("--place", default="", help="the repository, or nothing")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--to", default="", metavar="DIR")
    where.add_argument("--in-place", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    return parser


def read_restore_paths(options: argparse.Namespace) -> RestorePaths:
    path = os.path.normpath(options.path)
    if not path.startswith("/") or (options.to and not options.to.startswith("/")):
        raise HostError(f"{options.to or options.path} is no absolute path", "begin it with /")
    return RestorePaths(path, os.path.normpath(options.to) if options.to else "")


def answer_restore(
    options: argparse.Namespace, output: Output, carry_out: Callable[[], Restored]
) -> int:
    began = time.monotonic()
    try:
        done = carry_out()
    except Interrupted:
        output.error(HostError("interrupted; nothing was changed", "run it again"))
        raise
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise restore_error(options.path, error) from error
    seconds = {} if options.dry_run else {"seconds": round(time.monotonic() - began, 1)}
    output.result({"restored": {**done, **seconds}})
    return 0


def describe_restore(path: str, source: RestoreSource, target: str) -> Restored:
    return {
        "path": path,
        "kind": source.found.kind,
        "snapshot": source.snapshot,
        "at": utc_text(source.at),
        "place": source.place,
        "engine": source.engine,
        "restored_to": target,
        "bytes": source.found.bytes,
        "aside": None,
        "to_do": None,
    }


def refuse_to_overwrite(target: Entry) -> None:
    if target.look():
        raise HostError(
            f"{target.path} exists already and is not overwritten", "choose another DIR"
        )


def demand_room(above: Folder, size: int) -> None:
    room = os.statvfs(above.number)
    free = room.f_bavail * room.f_frsize
    if size + _SPARE_ROOM > free:
        raise HostError(
            f"{above.path} has {free >> 20} MiB free, the restore needs {size >> 20} MiB",
            "remove files there, or use --to DIR on another disk",
        )


def finish_extraction(made: Folder, paths: RestorePaths) -> None:
    """All of it is there and on the disk; from now on nothing is interrupted."""
    above, name = os.path.split(paths.inside)
    try:
        with open_beneath(made, above) as folder:
            is_there = not name or folder.entry(name).look() is not None
    except FileNotFoundError:
        is_there = False
    if not is_there:
        raise HostError(f"{paths.path} did not come back", "run it again")
    run_tool(paths.path, ["sync", "-f", made.at])
    go_on_to_the_end()
