"""What restores of every engine have in common: options, checks, and the answer."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from rigops.backup.host.errors import HostError, restore_error
from rigops.backup.host.one_run import Interrupted
from rigops.backup.host.paths import path_beside

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from datetime import datetime

    from rigops.backup.host.documents import Restored
    from rigops.backup.host.output import Output


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


def add_restore_options(
    commands: Any, purpose: str, copy: str, place: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser("restore", help=purpose)
    parser.add_argument("--path", required=True)
    parser.add_argument("--at", default="", help=f"a time in UTC, or the name of {copy}")
    parser.add_argument("--place", default="", help=place)
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
