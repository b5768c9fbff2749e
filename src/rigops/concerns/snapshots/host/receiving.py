"""Takes a snapshot from a stream that nobody here has made, so that nothing else can come of it.

It is received into a folder of its own, in which `btrfs receive` is confined, and gets its place
once it is whole. To another folder btrfs moves nothing that is read-only: there a snapshot of it
is made, which is the same to every stream.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from rigops.backup.host.btrfs import BtrfsError, run_tool, take_snapshot
from rigops.backup.host.errors import HostError
from rigops.backup.host.subvolumes import SUBVOLUME_INODE
from rigops.concerns.snapshots.host.inside import is_file
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

    from rigops.backup.host.subvolumes import Subvolume
    from rigops.concerns.snapshots.host.place import LocalPlace

_LACKS_PARENT = "cannot find parent subvolume"  # as btrfs says it

RECEIVING = "@receiving-"  # no folder of a subvolume begins with that


def receive_snapshot(
    place: LocalPlace,
    folder: str,
    name: str,
    stream: int,
    count: Callable[[int], None],
    *,
    origin: str,
) -> None:
    what = f"{place.name}: receiving {name}"
    _demand_chroot()
    clear_received(place)
    copies = place.copies(folder)
    if any(one.name == name for one in copies):
        raise HostError(f"{what}: it is there already", "remove the one that is not needed")
    parents = {one.origin: str(place.path(folder, one.name)) for one in copies if one.is_complete}
    known = {one.origin for each in place.folders() for one in place.copies(each)}
    check = StreamCheck(name, parents, lambda parent, path: is_file(parents[parent], path), known)
    private = f"{RECEIVING}{secrets.token_hex(8)}"
    try:
        place.make(private)
        try:
            _receive(what, place.path(private), check, stream, count)
        except MissingParentError:
            raise BtrfsError(what, _LACKS_PARENT) from None
        except StreamError as error:
            raise HostError(f"{what}: the stream {error}", "run it again") from None
        except ChildError as error:
            raise HostError(f"{what}: {error}", "run it again") from None
        received = _find_sound(place, private, check)
        if received is None or origin not in {"", check.origin}:
            raise HostError(f"{what}: something else arrived", "run it again")
        made_from = {"", *(one.uuid for one in copies if one.origin == check.parent)}
        if received.parent_uuid not in made_from:  # receive took another one of the disk
            raise BtrfsError(what, _LACKS_PARENT)
        place.make(folder)
        take_snapshot(str(place.path(private, name)), str(place.path(folder, name)))
    except BrokenPipeError:  # of who reads the progress
        raise
    except OSError as error:
        raise BtrfsError(what, error.strerror or str(error)) from error
    finally:
        with suppress(HostError, OSError):  # the next run does it otherwise
            _remove_received(place.path(private))


def clear_received(place: LocalPlace) -> bool:
    """What a run left that was killed. Whether there was something. Nobody else receives there."""
    left = [one for one in place.names() if one.startswith(RECEIVING)]
    for one in left:
        _remove_received(place.path(one))
    return bool(left)


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


def _find_sound(place: LocalPlace, private: str, check: StreamCheck) -> Subvolume | None:
    there = place.path(private)
    if os.listdir(there) != [check.name]:
        return None
    found = place.subvolume(private, check.name)
    is_sound = (
        found is not None
        and os.lstat(there / check.name).st_ino == SUBVOLUME_INODE
        and found.is_read_only
        and found.received_uuid == check.origin
    )
    return found if is_sound else None


def _remove_received(there: Path) -> None:
    for one in there.iterdir():
        if one.is_symlink() or not one.is_dir():
            one.unlink()
        elif one.stat().st_ino == SUBVOLUME_INODE:
            run_tool(str(one), ["btrfs", "-q", "subvolume", "delete", str(one)])
        else:
            shutil.rmtree(one)
    there.rmdir()


def _demand_chroot() -> None:
    asked = run_bounded(["btrfs", "receive", "--help"])
    if b"--chroot" not in asked.output and "--chroot" not in asked.errors:
        version = run_bounded(["btrfs", "--version"]).output.decode(errors="replace").strip()
        raise HostError(
            f"{version or 'btrfs-progs'} cannot receive in a folder of its own",
            "install a btrfs-progs whose `btrfs receive` has --chroot",
        )
