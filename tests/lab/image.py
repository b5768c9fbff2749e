"""The base image: a small Debian that boots in about a second, built once."""

from __future__ import annotations

import os
import shlex
import sys
from functools import partial
from hashlib import sha256
from pathlib import Path

from tests.lab import bootstrap, cache

PACKAGES = (
    "systemd", "systemd-sysv", "systemd-journal-remote", "dbus", "udev", "kmod", "procps",
    "openssh-server", "sudo", "iproute2", "pciutils", "less", "btrfs-progs",
    "borgbackup", "python3-minimal", "python3", "ca-certificates", "apt-utils", "dpkg-dev",
    "grub-common", "grub2-common",
)  # fmt: skip
# The engines of containers and both runtimes, as Debian packages them.
_ENGINES = {
    "bookworm": ("docker.io", "podman", "netavark", "runc", "crun", "busybox-static"),
    "trixie": ("docker.io", "docker-cli", "podman", "netavark", "runc", "crun", "busybox-static"),
}
_SETUP = Path(__file__).with_name("image_setup.sh")
_SETUP_ENGINES = Path(__file__).with_name("image_engines.sh")


def kernel() -> str:
    return os.uname().release


def digest(suite: str = bootstrap.SUITE, *, engines: bool = False) -> str:
    scripts = [script.read_text() for script in _scripts(engines=engines)]
    recipe = "\n".join([suite, *_packages(suite, engines=engines), kernel(), *scripts])
    return sha256(recipe.encode()).hexdigest()[:16]


def base(suite: str = bootstrap.SUITE, *, engines: bool = False) -> Path:
    """`engines`: with those of containers."""
    build = partial(_build, suite=suite, engines=engines)
    return cache.built("base", digest(suite, engines=engines), build) / "root"


def _packages(suite: str, *, engines: bool) -> tuple[str, ...]:
    return (*PACKAGES, *(_ENGINES[suite] if engines else ()))


def _scripts(*, engines: bool) -> list[Path]:
    # The engines' first: it still has the sources of packages.
    return [*([_SETUP_ENGINES] if engines else []), _SETUP]


def _build(new: Path, *, suite: str, engines: bool) -> None:
    what = f"{suite} with engines of containers" if engines else suite
    tell(f"building the base image of {what}, once: about a minute")
    hooks = [
        f'--customize-hook=KERNEL={kernel()} chroot "$1" sh -eu < {shlex.quote(str(script))}'
        for script in _scripts(engines=engines)
    ]
    packages = _packages(suite, engines=engines)
    bootstrap.make("the base image", new / "root", packages, *hooks, suite=suite)
    tell("the base image is ready")


def tell(text: str) -> None:
    sys.stderr.write(f"lab: {text}\n")
    sys.stderr.flush()
