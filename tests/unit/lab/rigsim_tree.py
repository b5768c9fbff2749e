"""A tree that stands for a host's root, with the simulation's own programs run on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab import rigs

if TYPE_CHECKING:
    from collections.abc import Mapping

SILICON = Path(__file__).parents[2] / "lab/silicon"
GRUB = Path(__file__).parents[2] / "fixtures/grub"
KERNELS = ("6.1.0-37-amd64", "6.1.0-50-amd64")


def with_grub(root: Path, config: str) -> Path:
    """The tree with a boot folder of a Debian machine of two kernels."""
    boot = root / "boot/grub"
    boot.mkdir(parents=True)
    shutil.copy(GRUB / f"{config}.cfg", boot / "grub.cfg")
    (boot / "grubenv").write_text("# GRUB Environment Block\n".ljust(1024, "#"))
    for kernel in KERNELS:
        (root / f"boot/vmlinuz-{kernel}").touch()
    return root


class Tree:
    def __init__(self, root: Path, rig: str, config: str = "plain", **changes: object) -> None:
        self.root = with_grub(root, config)
        self.set_rig(**{**json.loads(rigs.load(rig).hardware()), **changes})

    def set_rig(self, **facts: Any) -> None:
        """Writes rig.json, over what is there already."""
        path = self.root / "etc/rigsim/rig.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**known, **facts}))

    def install(self, version: str, about: Mapping[str, str] | None = None) -> None:
        """A kernel module on disk that says what it is."""
        module = self.root / f"lib/modules/{os.uname().release}/updates/dkms/nvidia-current.ko"
        module.parent.mkdir(parents=True, exist_ok=True)
        strings = {"license": "NVIDIA", "version": version, **(about or {})}
        text = "".join(f"{key}={value}\0" for key, value in strings.items())
        module.write_bytes(b"\x7fELF\0" + text.encode())

    def run(
        self, program: str, *arguments: str, user: int = 0, userspace: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-sE", str(SILICON / "bin" / program), *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            env={
                "RIGSIM_ROOT": str(self.root),
                "RIGSIM_UID": str(user),
                "RIGSIM_USERSPACE": userspace,
                "TZ": "UTC",
            },
        )

    def rigsim(self, *arguments: str) -> None:
        done = self.run("rigsim", *arguments)
        assert done.returncode == 0, done.stderr

    def smi(self, *arguments: str, user: int = 0) -> str:
        done = self.run("nvidia-smi", *arguments, user=user)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def read(self, path: str) -> str:
        return (self.root / path).read_text().strip()


def booted(
    root: Path, rig: str, driver: str = "535.261.03", config: str = "plain", **changes: object
) -> Tree:
    tree = Tree(root, rig, config, **changes)
    if driver:
        tree.install(driver)
    tree.rigsim("boot")
    return tree
