"""The rights of another host's key on a server: the snapshots below one folder, nothing else."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from rigops.backup.host.btrfs import BtrfsError
from rigops.backup.host.errors import HostError, as_host_error
from rigops.backup.host.snapshot_names import is_folder_name, parse_snapshot_name
from rigops.backup.host.volumes import find_on_volume
from rigops.concerns.snapshots.host.inside import find_inside, open_inside
from rigops.concerns.snapshots.host.place import LocalPlace
from rigops.concerns.snapshots.host.pump import pump
from rigops.hostside.shared.beneath import open_typed
from rigops.hostside.shared.bounded import SILENCE_S, BoundedChild, ChildError, printable

if TYPE_CHECKING:
    import argparse

    from rigops.backup.host.output import Output

_LONGEST_REQUEST = 16 << 10
_WRITING = ("receive", "delete")
_WITH_PATH = ("look", "tar")
_ARGUMENTS = {
    "folders": (0, 0),
    "room": (0, 0),
    "list": (1, 1),
    "receive": (2, 2),
    "delete": (2, 2),
    "send": (2, 3),
    "look": (3, 3),
    "tar": (3, 3),
}


def add_serve(commands: Any) -> None:
    parser = commands.add_parser("serve", help="what an ssh key may do, in authorized_keys")
    parser.add_argument("folder", metavar="PATH")
    parser.set_defaults(carry_out=serve)


def serve(options: argparse.Namespace, output: Output) -> int:
    """Its answers and streams are on standard output, so that errors are on the other one."""
    del output
    try:
        verb, words = parse_request(os.environ.get("SSH_ORIGINAL_COMMAND", ""))
        place = open_served(options.folder)
        with place.locked() if verb in _WRITING else nullcontext():
            _answer(place, verb, words)
    except OSError as error:
        problem = as_host_error(options.folder, error)
    except ChildError as error:
        problem = HostError(f"{options.folder}: {error}")
    except HostError as error:
        problem = error
    else:
        return 0
    fix = f". fix: {problem.fix}" if problem.fix else ""
    details = f"{problem.stderr}\n" if isinstance(problem, BtrfsError) else ""
    sys.stderr.write(f"{details}Error: {printable(problem.message)}{fix}\n")
    return 1


def parse_request(text: str) -> tuple[str, list[str]]:
    """Every word of it has a shape that leads nowhere else, but for a path in a snapshot."""
    try:
        verb, *words = shlex.split(text if len(text) <= _LONGEST_REQUEST else "")
    except ValueError:
        raise HostError("this key is for rigops snapshots only") from None
    least, most = _ARGUMENTS.get(verb, (0, -1))
    if not least <= len(words) <= most:
        raise HostError("this key is for rigops snapshots only")
    names = words[1:2] if verb in _WITH_PATH else words[1:]
    if not all(map(is_folder_name, words[:1])) or not all(map(parse_snapshot_name, names)):
        raise HostError(f"no snapshot has the name {' '.join(words)}")
    return verb, words


def open_served(path: str) -> LocalPlace:
    try:
        with open_typed(path) as folder:
            volume, base = find_on_volume(folder)
    except FileNotFoundError:
        raise HostError(
            f"{path} does not exist on the server", "make it on its btrfs disk"
        ) from None
    return LocalPlace(path, volume, base, receives=True, is_typed=True)


def _answer(place: LocalPlace, verb: str, words: list[str]) -> None:
    if verb == "receive":
        folder, name = words
        place.receive(folder, name, sys.stdin.fileno(), lambda _: None)
        place.sync()
    elif verb == "send":
        _demand(place, *words)
        with place.send(*words) as child:
            _pass_on(child)
    elif verb == "tar":
        _demand(place, *words[:2])
        _send_tar(place, *words)
    else:
        sys.stdout.write(f"{json.dumps(_found(place, verb, words))}\n")


def _found(place: LocalPlace, verb: str, words: list[str]) -> Any:
    if verb == "folders":
        return place.folders()
    if verb == "room":
        return place.room()
    if verb == "list":
        return place.copies(words[0])
    if verb == "look":
        _demand(place, *words[:2])
        found = find_inside(str(place.path(*words[:2])), words[2])
        if found is None:
            return []
        return ("directory", 0) if stat.S_ISDIR(found.st_mode) else ("file", found.st_size)
    if words[1] in {one.name for one in place.copies(words[0])}:
        place.delete(*words)
    return []


def _demand(place: LocalPlace, folder: str, *names: str) -> None:
    there = {one.name for one in place.copies(folder) if one.is_complete}
    for name in names:
        if name not in there:
            raise HostError(f"{name} is not in {place.name}")


def _send_tar(place: LocalPlace, folder: str, snapshot: str, inside: str) -> None:
    options = ("--sparse", "--xattrs", "--xattrs-include=*", "--acls", "--numeric-owner")
    try:
        with open_inside(str(place.path(folder, snapshot)), inside) as entry:
            if entry.look() is None:
                raise FileNotFoundError(inside)
            above = entry.folder.number
            where = f"/proc/self/fd/{above}"
            words = ["tar", "--create", *options, "-C", where, "--", f"./{entry.name}"]
            with BoundedChild(
                words,
                stdout=subprocess.PIPE,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
                pass_fds=[above],
            ) as child:
                _pass_on(child)
    except OSError as error:
        raise HostError(f"{inside} is not in {snapshot}, or behind a link") from error


def _pass_on(child: BoundedChild) -> None:
    """To who asked."""
    pump(child.output.fileno(), sys.stdout.fileno(), lambda _: None)
    if child.wait(SILENCE_S) != 0:
        raise BtrfsError("sending", child.errors)
