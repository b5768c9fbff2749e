"""The base image: a small Debian that boots in about a second, built once."""

from __future__ import annotations

import os
import shlex
import sys
from hashlib import sha256
from pathlib import Path

from tests.lab import bootstrap, cache

PACKAGES = (
    "systemd", "systemd-sysv", "systemd-journal-remote", "dbus", "udev", "kmod", "procps",
    "openssh-server", "sudo", "iproute2", "pciutils", "less", "btrfs-progs",
    "borgbackup", "python3-minimal", "python3", "ca-certificates", "apt-utils", "dpkg-dev",
    "grub-common", "grub2-common",
)  # fmt: skip
_SETUP = Path(__file__).with_name("image_setup.sh")


def kernel() -> str:
    return os.uname().release


def digest(suite: str = bootstrap.SUITE) -> str:
    recipe = "\n".join([suite, *PACKAGES, kernel(), _SETUP.read_text()])
    return sha256(recipe.encode()).hexdigest()[:16]


def base(suite: str = bootstrap.SUITE) -> Path:
    return cache.built("base", digest(suite), lambda new: _build(new, suite)) / "root"


def _build(new: Path, suite: str) -> None:
    tell(f"building the base image of {suite}, once: about a minute")
    setup = f'KERNEL={kernel()} chroot "$1" sh -eu < {shlex.quote(str(_SETUP))}'
    bootstrap.make(
        "the base image", new / "root", PACKAGES, f"--customize-hook={setup}", suite=suite
    )
    tell("the base image is ready")


def tell(text: str) -> None:
    sys.stderr.write(f"lab: {text}\n")
    sys.stderr.flush()
