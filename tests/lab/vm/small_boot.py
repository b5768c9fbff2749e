"""Machines of a kernel and a small ramdisk: two sets of NVIDIA's modules, and kmod."""

from __future__ import annotations

import re
import shlex
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Final

from rigops.hostside.packing import installed_at, pack
from rigops.rendering import render
from tests import own_tree
from tests.lab import bootstrap, cache, namespace
from tests.lab.errors import LabError
from tests.lab.vm import qemu

VERSION: Final = "535.309.01"
STOCK, OWN = 1, 2  # the marks of the two sets
STOCK_TREE: Final = own_tree.files(VERSION, STOCK)
OWN_TREE: Final = own_tree.files(VERSION, OWN)
DWORDS: Final = "ForceP2P=1;PeerMappingOverride=1"

_HERE: Final = Path(__file__).parent
_PACKAGES: Final = (
    "linux-image-amd64", "linux-headers-amd64", "dkms", "build-essential", "kmod", "cpio",
)  # fmt: skip
_PATIENCE_S: Final = 600
# As Debian's package of the modules has it.
_DEBIANS: Final = """\
install nvidia modprobe -i nvidia-current $CMDLINE_OPTS
install nvidia-modeset modprobe nvidia ; modprobe -i nvidia-current-modeset $CMDLINE_OPTS
install nvidia-drm modprobe nvidia-modeset ; modprobe -i nvidia-current-drm $CMDLINE_OPTS
install nvidia-uvm modprobe nvidia ; modprobe -i nvidia-current-uvm $CMDLINE_OPTS
install nvidia-peermem modprobe nvidia ; modprobe -i nvidia-current-peermem $CMDLINE_OPTS
alias pci:v000010DEd*sv*sd*bc03sc00i00* nvidia
"""


def made(suite: str, folder: Path) -> Path:
    """A folder with `vmlinuz` and `ramdisk.cpio`, of this release of Debian."""
    tree = cache.built("own-modules", _digest(suite), lambda new: _build(new, suite)) / "tree"
    upper, work, root = (folder / name for name in ("upper", "work", "root"))
    lab = upper / "lab"
    for path in (work, root, lab / "modprobe.d"):
        path.mkdir(parents=True)
    for one in (STOCK_TREE, OWN_TREE):
        (lab / f"{own_tree.digest(one)}.tar.gz").write_bytes(own_tree.archive(one))
    for name in ("own_modules", "nvidia_modules"):
        (lab / name).write_text(pack(name).text)
    (lab / "init").write_text((_HERE / "inside/own-modules-init").read_text())
    (lab / "small_boot.sh").write_text((_HERE / "small_boot.sh").read_text())
    program = installed_at("nvidia_modules")
    conf = render("rigops-nvidia-modules.conf.j2", program=program, module="nvidia-current")
    (lab / "modprobe.d/00-rigops-nvidia-modules.conf").write_text(conf)
    (lab / "modprobe.d/nvidia.conf").write_text(_DEBIANS)
    options = f'options nvidia-current NVreg_RegistryDwords="{DWORDS}"\n'
    (lab / "modprobe.d/rigops-nvidia.conf").write_text(options)
    words = [own_tree.digest(STOCK_TREE), own_tree.digest(OWN_TREE), VERSION]
    _run([
        namespace.overlay((tree,), upper, work, root),
        *(f"mount --rbind /{name} {shlex.quote(str(root / name))}" for name in ("dev", "proc")),
        shlex.join(["chroot", str(root), "sh", "/lab/small_boot.sh", *words]),
    ])  # fmt: skip
    return lab


def booted(boot: Path, arguments: str) -> list[str]:
    """What the machine said: which set it chose, and what the modules put into the log."""
    words = [
        qemu.PROGRAM, "-m", "768", "-nodefaults", "-display", "none", "-no-reboot",
        "-accel", "tcg", "-serial", "stdio", "-kernel", str(boot / "vmlinuz"),
        "-initrd", str(boot / "ramdisk.cpio"),
        "-append", f"console=ttyS0 quiet panic=1 {arguments}",
    ]  # fmt: skip
    done = subprocess.run(
        words,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
    )
    *said, end = _said(done.stdout) or [""]
    if end != "end":
        raise LabError(f"the machine did not come to its end:\n{done.stdout[-3000:]}{done.stderr}")
    return said


def _said(console: str) -> list[str]:
    return re.findall(r"(?m)^lab: (.*?)\r*$", console)


def _build(new: Path, suite: str) -> None:
    recommended = '--aptopt=APT::Install-Recommends "false"'
    bootstrap.make(f"a Debian {suite} with DKMS", new / "tree", _PACKAGES, recommended, suite=suite)


def _digest(suite: str) -> str:
    return sha256(f"{suite} {_PACKAGES}".encode()).hexdigest()[:16]


def _run(steps: list[str]) -> None:
    done = subprocess.run(
        namespace.enter(steps),
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise LabError(f"the ramdisk could not be made:\n{done.stdout[-4000:]}")
