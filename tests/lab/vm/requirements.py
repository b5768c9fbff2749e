"""What whole machines need of the machine that plays them."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

from tests.lab.vm import uefi

_PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "sfdisk": "fdisk",
    "losetup": "mount",
    "unshare": "util-linux",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.vfat": "dosfstools",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}


@cache
def lacks() -> str | None:
    """Why no machine can be built and booted here; None: all is there."""
    if os.geteuid() != 0:
        return "making a machine's disk takes root"
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = {name for program, name in _PROGRAMS.items() if not shutil.which(program, path=path)}
    missing |= set() if Path(uefi.CODE).exists() else {"ovmf"}
    return f"not installed: {' '.join(sorted(missing))}" if missing else None
