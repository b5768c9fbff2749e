"""What the lab needs of the machine it runs on."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.lab import cgroups

_PROGRAMS = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "losetup": "mount",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "gcc": "gcc",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.ext4": "e2fsprogs",
}


@cache
def lacks() -> str | None:
    """Why no host can boot here; None: all is there."""
    if os.geteuid() != 0:
        return "booting hosts takes root"
    missing = {package for program, package in _PROGRAMS.items() if not shutil.which(program)}
    if missing:
        return f"not installed: {' '.join(sorted(missing))}"
    if cgroups.root() is None:
        return "no cgroup2 file system is mounted"
    if "\toverlay" not in Path("/proc/filesystems").read_text():
        return "the kernel has no overlay file system"
    tried = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "none", "/mnt"],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    return "mounting is refused here" if tried.returncode else None


_INOTIFY_PER_HOST = 5  # systemd 3, dbus 1, logind 1


def lacks_room(count: int) -> str | None:
    """Why this many more hosts cannot boot: without an inotify instance systemd stops silently."""
    left = _inotify_left(count * _INOTIFY_PER_HOST)
    if left == count * _INOTIFY_PER_HOST:
        return None
    return (
        f"there is room for {left // _INOTIFY_PER_HOST} more hosts, not {count}:"
        " sysctl fs.inotify.max_user_instances=1024 makes more"
    )


def _inotify_left(at_most: int) -> int:
    """By trying: those of processes that /proc does not show in this namespace count too."""
    libc = ctypes.CDLL(None)
    taken: list[int] = []
    while len(taken) < at_most and (new := libc.inotify_init1(os.O_CLOEXEC)) >= 0:
        taken.append(new)
    for file in taken:
        os.close(file)
    return len(taken)
