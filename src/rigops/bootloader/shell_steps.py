"""Pieces of shell that commands of several bootloaders share. For `set -eu`, dash and busybox."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

# A full /boot would end a menu, or a kernel, in the middle.
_ROOM: Final = """\
    room() { # FOLDER KIB
        free=$(df -Pk "$1" | awk 'NR == 2 { print $4 }')
        [ "${free:-0}" -ge "$2" ] && return
        echo "$1 has $free KiB free, and $2 KiB are needed: make room there," \\
            "for instance by removing old kernels" >&2
        return 1
    }
"""


def apart(steps: str, *, needs_room: bool = False) -> str:
    """One statement, whose variables, functions and traps are its own."""
    body = "".join(f"    {line}\n" if line else "\n" for line in steps.splitlines())
    return f"(\n{_ROOM if needs_room else ''}{body})\n"


def synced(folders: Iterable[str]) -> str:
    """Empty where there is nothing. A FAT file system keeps no journal."""
    found = sorted(set(folders))
    return f"{shlex.join(('sync', *found))}\n" if found else ""
