"""The lab's driver packages on a machine, and what its dkms needs to take them for built."""

from __future__ import annotations

import io
import tarfile
from base64 import b64encode
from typing import TYPE_CHECKING, Protocol

from tests.lab import layers
from tests.lab.demo_packages import Demo, publish
from tests.lab.packages import AT, FILE, source

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

_PATIENCE_S = 900.0
# Machines of other tests say which driver is loaded, whatever they have on their disks.
BY_ITS_DISK = """
mkdir -p /etc/systemd/system/lab-cards.service.d
printf '[Service]\\nExecStartPre=rm /usr/lib/rigsim/etc/driver\\n' \\
    >/etc/systemd/system/lab-cards.service.d/by-its-disk.conf
"""
# What the lab's dkms looks for; nothing is compiled, so that nothing more is needed.
_HEADERS = """\
#!/bin/sh
set -e
mkdir -p /usr/src/linux-headers-{kernel}/include
ln -sfn /usr/src/linux-headers-{kernel} /lib/modules/{kernel}/build
"""
_UPDATE = "apt-get -q update -o APT::Sandbox::User=root"
_INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get -q -y install -o APT::Sandbox::User=root"


class System(Protocol):
    """A machine that runs, or the disk of one."""

    def run(
        self, command: str, *, given: str = ..., timeout: float = ...
    ) -> subprocess.CompletedProcess[str]:
        """As root, with this as its standard input."""


def can_build(system: System, kernel: str) -> None:
    """Headers of this kernel, and a compiler; no package of the driver, nor a source of one."""
    headers = Demo(f"linux-headers-{kernel}", "1", postinst=_HEADERS.format(kernel=kernel))
    publish(system, [headers, Demo("lab-compiler", "1", {"Provides": "dpkg-dev, make, patch"})])
    does(system, f"{_INSTALL} linux-headers-{kernel} lab-compiler")
    does(system, BY_ITS_DISK)


def has_archive(system: System, suites: Sequence[str]) -> None:
    """The lab's packages, where every host of the lab has them, and apt knows these suites."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        tar.add(layers.repository() / "debian", "debian")
    does(
        system,
        f"mkdir -p {AT} && base64 -d | tar -xz -C {AT} --no-same-owner",
        given=b64encode(stream.getvalue()).decode(),
    )
    does(system, f"cat >/{FILE}", given="\n".join(source("debian", suite) for suite in suites))
    does(system, _UPDATE)


def does(system: System, command: str, given: str = "") -> str:
    done = system.run(command, given=given, timeout=_PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()
