"""The base image: a small Debian that boots in about a second, built once."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from tests.lab import cache, namespace
from tests.lab.errors import LabError

SUITE = "bookworm"
PACKAGES = (
    "systemd", "systemd-sysv", "systemd-journal-remote", "dbus", "udev", "kmod", "procps",
    "openssh-server", "sudo", "iproute2", "pciutils", "less", "btrfs-progs",
    "python3-minimal", "python3", "ca-certificates", "apt-utils", "dpkg-dev",
    "grub-common", "grub2-common",
)  # fmt: skip
_SETUP = Path(__file__).with_name("image_setup.sh")


def kernel() -> str:
    return os.uname().release


def digest() -> str:
    recipe = "\n".join([SUITE, *PACKAGES, kernel(), _SETUP.read_text()])
    return sha256(recipe.encode()).hexdigest()[:16]


def base() -> Path:
    return cache.built("base", digest(), _build) / "root"


def _build(new: Path) -> None:
    tell("building the base image, once: about a minute")
    setup = f'KERNEL={kernel()} chroot "$1" sh -eu < {shlex.quote(str(_SETUP))}'
    debootstrap = [
        "mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}",
        "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
        f"--customize-hook={setup}", SUITE, str(new / "root"), *sources(),
    ]  # fmt: skip
    done = subprocess.run(
        namespace.enter(["exec " + shlex.join(debootstrap)]),
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise LabError(f"mmdebstrap could not make the base image:\n{done.stdout[-4000:]}")
    tell("the base image is ready")


def sources() -> list[str]:
    """The machine's own apt sources of this suite; none leaves the choice to mmdebstrap."""
    apt = Path("/etc/apt")
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.sources"))]
    files += sorted((apt / "sources.list.d").glob("*.list"))
    return [str(path) for path in files if path.is_file() and _is_debian(path.read_text())]


def _is_debian(text: str) -> bool:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return bool(re.search(rf"(?m)^(deb\s.*|Suites:.*)\s{SUITE}(\s|$)", "\n".join(lines)))


def tell(text: str) -> None:
    sys.stderr.write(f"lab: {text}\n")
    sys.stderr.flush()
