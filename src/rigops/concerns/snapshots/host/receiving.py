"""Takes a snapshot from a stream that nobody here has made, so that nothing else can come of it.

It is received into a folder of its own, in which `btrfs receive` is confined.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from rigops.backup.host.btrfs import BtrfsError, run_tool
from rigops.backup.host.errors import HostError
from rigops.backup.host.subvolumes import SUBVOLUME_INODE
from rigops.concerns.snapshots.host.pump import pump_checked
from rigops.concerns.snapshots.host.send_stream import (
    MissingParentError,
    StreamCheck,
    StreamError,
)
from rigops.hostside.shared.bounded import SILENCE_S, BoundedChild, ChildError, run_bounded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


LACKS_PARENT = "cannot find parent subvolume"  # as btrfs says it


def receive_stream(
    what: str, there: Path, check: StreamCheck, stream: int, count: Callable[[int], None]
) -> None:
    """The received files are in `there`, whatever they are."""
    try:
        _receive(what, there, check, stream, count)
    except MissingParentError:
        raise BtrfsError(what, LACKS_PARENT) from None
    except StreamError as error:
        raise HostError(f"{what}: the stream {error}", "run it again") from None
    except ChildError as error:
        raise HostError(f"{what}: {error}", "run it again") from None


def _receive(
    what: str, there: Path, check: StreamCheck, stream: int, count: Callable[[int], None]
) -> None:
    words = ["btrfs", "-q", "receive", "--chroot", str(there)]
    environment = {**os.environ, "LC_ALL": "C"}
    with BoundedChild(words, stdin=subprocess.PIPE, env=environment) as child:
        pump_checked(stream, child.input.fileno(), check, count)
        child.input.close()
        if child.wait(SILENCE_S) != 0:
            rows = child.errors.splitlines()
            raise BtrfsError(what, "\n".join(row for row in rows if "Chroot to " not in row))
    check.finish()


def remove_received(there: Path) -> None:
    for one in there.iterdir():
        if one.is_symlink() or not one.is_dir():
            one.unlink()
        elif one.stat().st_ino == SUBVOLUME_INODE:
            run_tool(str(one), ["btrfs", "-q", "subvolume", "delete", str(one)])
        else:
            shutil.rmtree(one)
    there.rmdir()


def demand_chroot() -> None:
    asked = run_bounded(["btrfs", "receive", "--help"])
    if b"--chroot" not in asked.output and "--chroot" not in asked.errors:
        version = run_bounded(["btrfs", "--version"]).output.decode(errors="replace").strip()
        raise HostError(
            f"{version or 'btrfs-progs'} cannot receive in a folder of its own",
            "install a btrfs-progs whose `btrfs receive` has --chroot",
        )
