"""Accounts of a newer Debian that one logs in to over a real sshd: its sudo, sudo-rs and shells.

No host boots for it: the sshd is this machine's, and its commands run in the tree.
"""

from __future__ import annotations

import shlex
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from tests.lab import bootstrap, cache, namespace
from tests.lab.image import tell
from tests.lab.requirements import lacks
from tests.lab.sshd import Lab, Sshd, make_lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUITE = "trixie"
PACKAGES = ("sudo", "sudo-rs", "rust-coreutils", "fish", "tcsh", "zsh", "procps")
USER = "rig"

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SETUP = f"useradd --create-home --shell /bin/bash {USER}; rm -rf /var/cache/apt /var/lib/apt/lists"


def base() -> Path:
    digest = sha256("\n".join([SUITE, *PACKAGES, _SETUP]).encode()).hexdigest()[:16]
    return cache.built("accounts", digest, _build) / "root"


def _build(new: Path) -> None:
    tell("building the tree of accounts, once: about two minutes")
    setup = f'chroot "$1" sh -euc {shlex.quote(_SETUP)}'
    hook = f"--customize-hook={setup}"
    bootstrap.make("the tree of accounts", new / "root", PACKAGES, hook, suite=SUITE)


@dataclass(frozen=True)
class Accounts:
    lab: Lab
    root: Path

    def inside(self, script: str, *, check: bool = True) -> str:
        """As root of the tree, beside sshd."""
        process = self.lab.sshd.process
        assert process is not None
        # `--mount` alone leaves the tree that this machine itself may be.
        enter = ["nsenter", "--target", str(process.pid), "--mount", "--root", "--wd=/"]
        enter += ["chroot", str(self.root)]
        done = subprocess.run(
            [*enter, "env", "-i", f"PATH={_PATH}", "sh", "-euc", script],
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def running(folder: Path, shell: str = "/bin/sh") -> Iterator[Accounts]:
    """Whoever logs in is USER in the tree, and `shell` gets the command."""
    if reason := lacks():
        pytest.skip(f"lab tier: {reason}")
    upper, work, root = (folder / name for name in ("upper", "work", "root"))
    for one in (upper, work, root):
        one.mkdir(parents=True)
    mounts = (
        namespace.overlay((base(),), upper, work, root),
        f"mount -t proc proc {root}/proc",
        f"mount --rbind /dev {root}/dev",
        f'echo "127.0.0.1 localhost $(uname -n)" >{root}/etc/hosts',
    )
    login = ["/usr/sbin/chroot", f"--userspec={USER}:{USER}", "--groups=", str(root),
             "/usr/bin/env", "-i", f"HOME=/home/{USER}", f"USER={USER}", f"LOGNAME={USER}",
             f"PATH={_PATH}", "--chdir=/", shell, "-c"]  # fmt: skip
    command = f'ForceCommand {shlex.join(login)} "$SSH_ORIGINAL_COMMAND"'
    options = (command, "MaxStartups 100", "MaxSessions 100")
    with Sshd(folder / "server", options, mounts=mounts) as sshd:
        lab = make_lab(folder, sshd)
        lab.trust()
        yield Accounts(lab, root)
