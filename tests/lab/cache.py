"""What outlives the hosts: trees that were built once, and the key that opens every host."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_KEPT = 7 * 86400
_KEPT_WITHOUT_ROOM = 2 * 3600  # longer than anything that uses a tree runs
_ROOM = 20 << 30  # bytes free


def folder() -> Path:
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(caches) / "rigops-lab"
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def locked() -> Iterator[None]:
    with (folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def built(kind: str, digest: str, build: Callable[[Path], None]) -> Path:
    """The folder of this kind and digest; `build` fills it once, and whole or not at all."""
    target = folder() / kind / digest
    if target.is_dir():
        os.utime(target)
        return target
    with locked():
        if not target.is_dir():
            _drop_unused(target.parent)
            # Not the same name again: what a killed build started may still write there.
            target.parent.mkdir(exist_ok=True)
            new = Path(tempfile.mkdtemp(prefix=f"{digest}.", dir=target.parent))
            new.chmod(0o755)
            try:
                build(new)
            except BaseException:
                shutil.rmtree(new, ignore_errors=True)
                raise
            new.rename(target)
    return target


def _drop_unused(siblings: Path) -> None:
    """Each edit of a recipe makes another tree; the old ones go some time after their last use."""
    kept = _KEPT if shutil.disk_usage(folder()).free > _ROOM else _KEPT_WITHOUT_ROOM
    for tree in siblings.glob("*"):
        if time.time() - tree.stat().st_mtime > kept:
            shutil.rmtree(tree, ignore_errors=True)


def key() -> Path:
    """The private key that root and rig of every host take."""

    def build(new: Path) -> None:
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rigops-lab", "-f", new / "id"],
            check=True,
            stdin=subprocess.DEVNULL,
        )

    return built("key", "ed25519", build) / "id"
