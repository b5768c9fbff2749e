"""What the lab needs of the machine it runs on."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
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


_BPF, _BPF_LOAD, _DEVICE_PROGRAM = 321, 5, 15  # on x86_64
_ALLOW_ALL = struct.pack("<BBhiBBhi", 0xB7, 0, 0, 1, 0x95, 0, 0, 0)


@cache
def lacks_containers() -> str | None:
    """Why no host can apply DevicePolicy to containers: systemd needs bpf(2), and is silent."""
    if reason := lacks():
        return reason
    libc = ctypes.CDLL(None, use_errno=True)
    code, license_ = ctypes.create_string_buffer(_ALLOW_ALL), ctypes.create_string_buffer(b"GPL")
    places = ctypes.addressof(code), ctypes.addressof(license_)
    attributes = struct.pack("<IIQQ", _DEVICE_PROGRAM, len(_ALLOW_ALL) // 8, *places)
    program = libc.syscall(_BPF, _BPF_LOAD, attributes, len(attributes))
    if program < 0:
        why = os.strerror(ctypes.get_errno())
        return f"bpf(2) is refused ({why}): systemd cannot apply DevicePolicy"
    os.close(program)
    return None


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
