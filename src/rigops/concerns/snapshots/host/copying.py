"""Copies of files and trees with all that belongs to them, and how large they are."""

from __future__ import annotations

import os
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.concerns.snapshots.host.btrfs import BtrfsError
from rigops.concerns.snapshots.host.transfer import ended

if TYPE_CHECKING:
    from rigops.concerns.snapshots.host.transfer import StreamMeter

SPARE = 16 * 1024 * 1024  # bytes that a restore leaves free

_LOOK_S = 0.2
_DISK_BLOCK = 512  # of st_blocks


def measure_tree(path: str) -> int:
    """Bytes without holes, and each hard link once."""
    seen: set[tuple[int, int]] = set()
    found = 0
    waiting = [path]
    while waiting:
        one = waiting.pop()
        status = os.lstat(one)
        key = status.st_dev, status.st_ino
        if key not in seen:
            seen.add(key)
            found += status.st_blocks * _DISK_BLOCK
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(one) as entries:
                waiting += [entry.path for entry in entries]
    return found


def copy_tree(source: str, target: str, meter: StreamMeter) -> None:
    """By sharing the data where the file system can."""
    words = ["cp", "-a", "-T", "--reflink=auto", "--sparse=auto", "--", source, target]
    copying = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    said = b""
    with ended(copying):
        while copying.returncode is None:
            with suppress(subprocess.TimeoutExpired):
                _, said = copying.communicate(timeout=_LOOK_S)
            if copying.returncode is None:
                meter.count(max(0, _written_by(copying.pid) - meter.done))
    if copying.returncode != 0:
        raise BtrfsError(f"copying {source}", said.decode(errors="replace"))


def _written_by(pid: int) -> int:
    """Zero where the kernel does not count it."""
    try:
        for line in Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(": ")
            if name == "wchar":
                return int(value)
    except (OSError, ValueError):
        pass
    return 0
