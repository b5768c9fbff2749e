"""Give a tree what its rig boots with: a kernel that modules can be built for, and the driver."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.errors import LabError
from tests.lab.packages.recipe import machine_kernel
from tests.lab.packages.sources import FILE, first_sources, sources

if TYPE_CHECKING:
    from tests.lab.packages.sources import Machine

_PACKAGES = {
    "debian": ("nvidia-driver", "nvidia-smi", "libcuda1", "nvidia-persistenced", "libnccl2"),
    "ubuntu": ("nvidia-driver-{branch}", "libnccl2"),
}
_RELEASE = {
    "PRETTY_NAME": "Ubuntu 24.04.4 LTS",
    "NAME": "Ubuntu",
    "VERSION_ID": "24.04",
    "VERSION": "24.04.4 LTS (Noble Numbat)",
    "VERSION_CODENAME": "noble",
    "ID": "ubuntu",
    "ID_LIKE": "debian",
    "UBUNTU_CODENAME": "noble",
}
_SETUP = Path(__file__).with_name("install.sh")
_DRIVER = Path(__file__).with_name("driver.sh")
_PERSISTENT = """\
[Unit]
StopWhenUnneeded=no

[Service]
ExecStart=
ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --persistence-mode --verbose

[Install]
WantedBy=multi-user.target
"""


def install(root: Path, rig: Machine) -> None:
    """Install into the tree of a host that is not running, with its own apt.

    The repositories have to be in the tree already, where its hosts will have them.
    """
    if rig.os == "ubuntu":
        _become_ubuntu(root)
    _keep_persistent(root, rig)
    _write(root, FILE, sources(rig))
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation=private",
         "sh", "-eu", _SETUP, root, _DRIVER.read_text()],
        env={
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            **_wanted(rig),
        },
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    if done.returncode != 0:
        raise LabError(f"the driver could not be installed:\n{done.stdout[-4000:]}")


def change(root: Path, rig: Machine) -> list[str]:
    """The command that changes the driver in a running host, whose tree is at `root`.

    A version that no suite has is refused before anything happens.
    """
    words = [f"{key}={value}" for key, value in _wanted(rig).items()]
    _keep_persistent(root, rig)
    return ["env", *words, "sh", "-euc", _DRIVER.read_text()]


def _keep_persistent(root: Path, rig: Machine) -> None:
    if rig.persistence and rig.os == "ubuntu" and rig.driver:
        _write(root, "etc/systemd/system/nvidia-persistenced.service.d/lab.conf", _PERSISTENT)


def _wanted(rig: Machine) -> dict[str, str]:
    kernel = machine_kernel(os.uname().release)
    packages = [f"linux-image-{kernel}", f"linux-headers-{kernel}", "initramfs-tools"]
    if rig.driver:
        branch = rig.driver.partition(".")[0]
        packages += [name.format(branch=branch) for name in _PACKAGES[rig.os]]
        # Apt takes it for the first of the alternatives that the driver depends on.
        packages += ["nvidia-open-kernel-dkms"] if rig.open_modules else []
    return {
        "LC_ALL": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
        "ORIGIN": rig.os.title(),
        "SOURCES": first_sources(rig),
        "DRIVER": rig.driver or "",
        "PACKAGES": " ".join(packages),
        "HELD": "yes" if rig.held else "",
        "PERSISTENCE": "yes" if rig.persistence else "",
    }


def _become_ubuntu(root: Path) -> None:
    text = "".join(f'{key}="{value}"\n' for key, value in _RELEASE.items())
    _write(root, "usr/lib/os-release", text)
    lsb = {"ID": "Ubuntu", "RELEASE": "24.04", "CODENAME": "noble"}
    text = "".join(f"DISTRIB_{key}={value}\n" for key, value in lsb.items())
    _write(root, "etc/lsb-release", text)


def _write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
