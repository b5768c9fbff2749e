"""Paths in a snapshot, untrusted: through no link, which could lead out of it."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rigops.hostside.shared.beneath import open_beneath, open_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.hostside.shared.beneath import Entry

_LED_AWAY = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL)


@contextmanager
def open_inside(snapshot: str, inside: str) -> Iterator[Entry]:
    """Its name in the folder that has it; `.` for all of the snapshot."""
    *above, name = [one for one in inside.split("/") if one not in {"", "."}] or ["."]
    if name == "..":
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), inside)
    with open_folder(snapshot) as top, open_beneath(top, "/".join(above)) as folder:
        yield folder.entry(name)


def find_inside(snapshot: str, inside: str) -> os.stat_result | None:
    """None: it is not there, or behind a link."""
    try:
        with open_inside(snapshot, inside) as entry:
            return entry.look()
    except OSError as error:
        if error.errno in _LED_AWAY:
            return None
        raise


def is_file(snapshot: str, inside: bytes) -> bool:
    found = find_inside(snapshot, os.fsdecode(inside))
    return found is not None and stat.S_ISREG(found.st_mode)
