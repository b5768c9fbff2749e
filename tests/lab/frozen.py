"""A small frozen file system in a host: who writes to it cannot be ended, not even by KILL.

Only the host sees it. It has to be thawed before the host can end.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIZE = 4 << 20
_WHERE = "run/rigsim/frozen"
_FREEZE, _THAW = 0xC0045877, 0xC0045878  # FIFREEZE and FITHAW

# To be run in the host: it ends once somebody waits there. Who merely reads from a disk is in
# state D as well, for a moment.
UNTIL_IT_HOLDS = "until cat /proc/[0-9]*/wchan 2>&1 | grep -aq percpu; do sleep 0.1; done"

# In the host's mounts, with the machine's rights: the device node is there only for the mount.
_MOUNT = """
mkdir -p "/$0"
cd /
mknod /dev/rigsim-frozen b "$1" "$2"
mount -t ext4 /dev/rigsim-frozen "/$0"
rm /dev/rigsim-frozen
chmod 1777 "/$0"
"""


def freeze(folder: Path, pid: int) -> None:
    """For the host whose files are kept in `folder` and one of whose processes is `pid`."""
    if f" /{_WHERE} ext4 " not in Path(f"/proc/{pid}/mounts").read_text():
        _mount(folder / "frozen.img", pid)
    with suppress(OSError):  # it is frozen already
        _tell(pid, _FREEZE)


def thaw(group: Path) -> None:
    """Lets go whoever writes; through any process of the host, since its first may be gone."""
    for pid in _processes(group):
        with suppress(OSError):
            _tell(pid, _THAW)
            return


def _mount(image: Path, pid: int) -> None:
    with image.open("wb") as file:
        file.truncate(_SIZE)
    _run("mkfs.ext4", "-q", "-O", "^has_journal", str(image))
    device = _run("losetup", "--find", "--show", str(image)).strip()
    number = Path(device).stat().st_rdev
    try:
        _run(
            "nsenter", "--target", str(pid), "--mount", "--root", "--wd=/", "sh", "-euc", _MOUNT,
            _WHERE, str(os.major(number)), str(os.minor(number)),
        )  # fmt: skip
    finally:
        _run("losetup", "--detach", device)  # as soon as it is mounted nowhere


def _tell(pid: int, what: int) -> None:
    folder = os.open(f"/proc/{pid}/root/{_WHERE}", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(folder, what, 0)
    finally:
        os.close(folder)


def _processes(group: Path) -> Iterator[int]:
    # A host that has just booted makes and removes groups all the time: walk() bears that.
    for folder, _, _ in os.walk(group):
        with suppress(OSError):
            yield from map(int, Path(folder, "cgroup.procs").read_text().split())


def _run(*command: str) -> str:
    done = subprocess.run(
        command, check=True, capture_output=True, stdin=subprocess.DEVNULL, text=True
    )
    return done.stdout
