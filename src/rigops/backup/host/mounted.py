"""Mounts of the whole machine, which this process does not see changes of in its own."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.btrfs import last_line

if TYPE_CHECKING:
    from rigops.hostside.shared.beneath import Folder

_MOUNTS = "/proc/1/mountinfo"
# With its root: that of the namespace is another one where a container runs in a changed root.
_IN_HOST = ("nsenter", "-t", "1", "-m", "-r", "--")
_UNMOUNT_TRIES, _UNMOUNT_PAUSE_S = 10, 0.5
_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """`root`: the folder of the file system that is at `point`, from its top level."""

    number: int
    root: str
    point: str
    kind: str
    device: str
    options: str  # as mount takes them, without the subvolume


def list_mounts() -> list[Mount]:
    return parse_mounts(Path(_MOUNTS).read_text(encoding="utf-8", errors="surrogateescape"))


def parse_mounts(text: str) -> list[Mount]:
    """Of /proc/PID/mountinfo."""
    found = []
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        own, rest = before.split(), after.split()
        if not dash or len(own) < 6 or len(rest) < 3:  # noqa: PLR2004 - of its columns
            continue
        options = dict.fromkeys([*own[5].split(","), *rest[2].split(",")])
        kept = [one for one in options if not one.startswith(("subvol=", "subvolid="))]
        root, point, device = _plain(own[3]), _plain(own[4]), _plain(rest[1])
        found.append(Mount(int(own[0]), root, point, rest[0], device, ",".join(kept)))
    return found


def mount_of(folder: Folder) -> Mount | None:
    """The one by which it was opened, in the namespace of this process."""
    about = Path(f"/proc/self/fdinfo/{folder.number}").read_text(encoding="ascii")
    number = next((line[7:].strip() for line in about.splitlines() if line[:7] == "mnt_id:"), "")
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    return next((one for one in parse_mounts(text) if str(one.number) == number), None)


def is_disconnected(path: str) -> bool:
    """Its disk was mounted when it went away."""
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    above = [one for one in parse_mounts(text) if f"{path}/".startswith(f"{one.point}/")]
    if not above:  # but for the root, whose device may have another name
        return False
    last = max(reversed(above), key=lambda one: len(one.point))
    return last.device.startswith("/dev/") and not os.path.exists(last.device)


def mounted_at(path: str) -> Mount | None:
    """The last one, which hides those before."""
    return next((one for one in reversed(list_mounts()) if one.point == path), None)


def mounted_below(path: str) -> list[str]:
    start = f"{path.rstrip('/')}/"
    return sorted({one.point for one in list_mounts() if one.point.startswith(start)})


def unmount(mount: Mount) -> str:
    """Why not, or nothing.

    A service that starts meanwhile has every mount in use for a moment, in its own namespace.
    """
    left = _UNMOUNT_TRIES
    while "busy" in (why := _ask_host(["umount", mount.point])) and left > 0:
        left -= 1
        time.sleep(_UNMOUNT_PAUSE_S)
    return why


def mount_subvolume(mount: Mount, subvolume: str) -> str:
    """Why not, or nothing. `subvolume`: from the top level."""
    options = f"{mount.options},subvol=/{subvolume}"
    return _ask_host(["mount", "-t", mount.kind, "-o", options, mount.device, mount.point])


def _ask_host(words: list[str]) -> str:
    done = subprocess.run(
        [*_IN_HOST, *words],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C"},
    )
    if done.returncode == 0:
        return ""
    return last_line(done.stderr.decode(errors="replace")) or f"{words[0]} failed"


def _plain(text: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)
