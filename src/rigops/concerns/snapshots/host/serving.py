"""What a server lets another host's key do: with the snapshots below one folder, nothing else."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigops.concerns.snapshots.host.btrfs import HostError, run_tool
from rigops.concerns.snapshots.host.creating import as_host_error
from rigops.concerns.snapshots.host.names import parse_snapshot_name
from rigops.concerns.snapshots.host.place import LocalPlace
from rigops.concerns.snapshots.host.volumes import open_volume

if TYPE_CHECKING:
    import argparse

    from rigops.concerns.snapshots.host.output import Output

_FOLDER_SHAPE = re.compile(r"@|[A-Za-z0-9_.~%-]+")
_WRITING = ("receive", "delete")
_ARGUMENTS = {
    "folders": (0, 0),
    "room": (0, 0),
    "list": (1, 1),
    "receive": (1, 1),
    "delete": (2, 2),
    "send": (2, 3),
    "tar": (3, 3),
}


def add_serve(commands: Any) -> None:  # noqa: ANN401 - argparse does not name its type
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
            return _answer(place, verb, words)
    except OSError as error:
        problem = as_host_error(options.folder, error)
    except HostError as error:
        problem = error
    fix = f". fix: {problem.fix}" if problem.fix else ""
    sys.stderr.write(f"Error: {problem.message}{fix}\n")
    return 1


def parse_request(text: str) -> tuple[str, list[str]]:
    """Every word of it has a shape that leads nowhere else."""
    try:
        verb, *words = shlex.split(text)
    except ValueError:
        raise HostError("this key is for rigops snapshots only") from None
    least, most = _ARGUMENTS.get(verb, (0, -1))
    if not least <= len(words) <= most:
        raise HostError("this key is for rigops snapshots only")
    folder, names = words[:1], words[1:2] if verb == "tar" else words[1:]
    is_sound = all(_FOLDER_SHAPE.fullmatch(one) and one not in {".", ".."} for one in folder)
    if not is_sound or not all(parse_snapshot_name(one) for one in names):
        raise HostError(f"no snapshot has the name {' '.join(words)}")
    return verb, words


def open_served(path: str) -> LocalPlace:
    if not Path(path).is_dir():
        raise HostError(f"{path} does not exist on the server", "make it on its btrfs disk")
    real = os.path.realpath(path)
    words = ["findmnt", "-n", "-v", "-r", "-o", "FSTYPE,UUID,SOURCE,FSROOT,TARGET", "-T", real]
    kind, uuid, device, root, mount = (*run_tool(path, words).split(), "", "", "", "", "")[:5]
    if kind != "btrfs":
        raise HostError(
            f"{path} is on {kind or 'no file system'}, not on btrfs",
            "mount the btrfs disk there, or make the folder on one",
        )
    inside = os.path.relpath(real, _unescape(mount))
    base = os.path.normpath(f"/{_unescape(root)}/{inside}").strip("/")
    return LocalPlace(path, open_volume(device, uuid), base, receives=True)


def inside_of(snapshot: Path, path: str) -> str:
    """The path to name to tar; a symbolic link may not lead out of the snapshot."""
    wanted = os.path.normpath(f"/{path}").strip("/") or "."
    above = os.path.realpath(snapshot / os.path.dirname(wanted))  # noqa: PTH120
    root = os.path.realpath(snapshot)
    if above != root and not above.startswith(f"{root}/"):
        raise HostError(f"{path} leads out of the snapshot")
    if not os.path.lexists(snapshot / wanted):
        raise HostError(f"{path} is not in {snapshot.name}")
    return f"./{wanted}"


def _answer(place: LocalPlace, verb: str, words: list[str]) -> int:
    if verb in {"receive", "send", "tar"}:
        return _run(*_stream_words(place, verb, words))
    found: Any = []
    if verb == "folders":
        found = place.folders()
    elif verb == "room":
        found = place.room()
    elif verb == "list":
        found = place.copies(words[0])
    elif words[1] in {one.name for one in place.copies(words[0])}:
        place.delete(*words)
    sys.stdout.write(f"{json.dumps(found)}\n")
    return 0


def _stream_words(place: LocalPlace, verb: str, words: list[str]) -> list[str]:
    folder, *names = words
    if verb == "receive":
        return place.receive_words(folder)
    if verb == "send":
        _demand(place, folder, names)
        return place.send_words(folder, *names)
    _demand(place, folder, names[:1])
    snapshot = place.path(folder, names[0])
    options = ("--sparse", "--xattrs", "--xattrs-include=*", "--acls", "--numeric-owner")
    return ["tar", "--create", *options, "-C", str(snapshot), "--", inside_of(snapshot, names[1])]


def _demand(place: LocalPlace, folder: str, names: list[str]) -> None:
    there = {one.name for one in place.copies(folder) if one.is_complete}
    for name in names:
        if name not in there:
            raise HostError(f"{name} is not in {place.name}")


def _run(*words: str) -> int:
    """With the streams of the connection."""
    with subprocess.Popen(
        words,
        stdin=sys.stdin,
        stdout=sys.stdout,
        stderr=sys.stderr,
        env={**os.environ, "LC_ALL": "C"},
    ) as process:
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            raise


def _unescape(text: str) -> str:
    r"""Of findmnt's raw output, where a blank is \x20."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), text)
