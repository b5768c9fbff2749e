"""Shared memory that NCCL leaves behind when its process is killed before it removes the names."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

FOLDER: Final = Path("/dev/shm")  # noqa: S108 - where NCCL makes them
_NAMES: Final = "nccl-*"


def own_names(folder: Path = FOLDER) -> frozenset[str]:
    """Those of this user."""
    found = set()
    for path in folder.glob(_NAMES):
        with suppress(OSError):  # its process has just removed it
            if path.lstat().st_uid == os.geteuid():
                found.add(path.name)
    return frozenset(found)


def remove_new(before: Collection[str], folder: Path = FOLDER) -> None:
    """Those since then, but for what another process of this user has just begun to use."""
    new = own_names(folder) - set(before)
    if not new:
        return
    in_use = "".join(_maps())
    for name in new:
        if str(folder / name) not in in_use:
            with suppress(OSError):
                (folder / name).unlink()


def _maps() -> list[str]:
    """The mappings of each process, as far as this user may see them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            found.append(path.read_text(encoding="utf-8", errors="replace"))
    return found
