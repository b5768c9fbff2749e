"""What `up` writes into a host's own layer before it boots."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING
from uuid import uuid4

from tests.lab import cache, layers

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.rigs import Rig
    from tests.lab.runs import Record

SSHD_PORT = 2200  # not 22, which the machine's own sshd may hold on every address
SILICON = layers.CHECKOUT / "tests/lab/silicon"


class Upper:
    """A host's own layer; folders in it look as they do in the layers below."""

    def __init__(self, root: Path, below: tuple[Path, ...]) -> None:
        self.root = root
        self._below = below

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        target = self._place(path)
        target.write_text(text)
        target.chmod(mode)
        owner = target.parent.stat()
        os.chown(target, owner.st_uid, owner.st_gid)
        return target

    def link(self, path: str, target: str) -> None:
        self._place(path).symlink_to(target)

    def _place(self, path: str) -> Path:
        folder = self.root
        for part in path.strip("/").split("/")[:-1]:
            folder /= part
            if not folder.is_dir():
                folder.mkdir(mode=0o755)
                self._look_like_below(folder)
        return self.root / path.strip("/")

    def _look_like_below(self, folder: Path) -> None:
        for layer in self._below:
            lower = layer / folder.relative_to(self.root)
            if lower.is_dir():
                shutil.copystat(lower, folder)
                owner = lower.stat()
                os.chown(folder, owner.st_uid, owner.st_gid)
                return


def sow(upper: Upper, record: Record, rig: Rig) -> str:
    """Make the layer this host's own; the answer is the public half of its ssh host key."""
    upper.write("etc/hostname", f"{record.name}\n")
    upper.write("etc/hosts", f"127.0.0.1 localhost\n{record.address} {record.name}\n")
    upper.write("etc/machine-id", f"{uuid4().hex}\n", 0o444)
    upper.write(
        "etc/ssh/sshd_config.d/lab.conf",
        f"ListenAddress {record.address}:{SSHD_PORT}\nPasswordAuthentication no\n",
    )
    public = cache.key().with_suffix(".pub").read_text()
    for home in ("root", *(f"home/{user}" for user in rig.users)):
        upper.write(f"{home}/.ssh/authorized_keys", public, 0o600)
    upper.write("etc/rigsim/rig.json", rig.hardware())
    for unit in sorted((SILICON / "units").glob("*.service")):
        _enable(upper, unit)
    return _host_key(upper)


def _enable(upper: Upper, unit: Path) -> None:
    there = f"/usr/lib/rigsim/units/{unit.name}"
    upper.link(f"etc/systemd/system/{unit.name}", there)
    for line in unit.read_text().splitlines():
        if line.startswith("WantedBy="):
            for target in line.partition("=")[2].split():
                upper.link(f"etc/systemd/system/{target}.wants/{unit.name}", there)


def _host_key(upper: Upper) -> str:
    key = upper.write("etc/ssh/ssh_host_ed25519_key", "")
    key.unlink()
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])
