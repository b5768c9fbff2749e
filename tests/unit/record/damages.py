"""What happens to a record on this machine: by a power cut, a full disk, or a person."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

HUGE: Final = 1 << 40  # bytes; a file system keeps no zeros


def _garbage(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00{]\n" * 10)


def _nul(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 5)


def _huge(path: Path) -> None:
    os.truncate(path, HUGE)


def _replaced(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


DAMAGES: Final[Mapping[str, Callable[[Path], None]]] = {
    "cut": _cut,
    "emptied": lambda path: os.truncate(path, 0),
    "nul": _nul,
    "garbage": _garbage,
    "huge": _huge,
    "folder": _replaced(os.mkdir),
    "pipe": _replaced(os.mkfifo),
    "device": _replaced(lambda path: path.symlink_to("/dev/zero")),
    "link to itself": _replaced(lambda path: path.symlink_to(path.name)),
}
