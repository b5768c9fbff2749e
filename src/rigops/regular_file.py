"""Reading a file of this machine that may be a pipe, a device, or one without end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def require(descriptor: int) -> None:
    """Raises OSError for a folder, and for a pipe or device, on which a run would wait."""
    _require(os.fstat(descriptor).st_mode)


def read(path: Path, *, most: int, follows_links: bool = True) -> bytes:
    """Raises OSError where it has more bytes than that."""
    data = read_end(path, most=most + 1, follows_links=follows_links)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most // 2**20} MiB")
    return data


def read_end(path: Path, *, most: int, follows_links: bool = True) -> bytes:
    """The last so many bytes of it."""
    # To open a device may already do something, and to open a pipe must not wait for its writer.
    _require(path.stat(follow_symlinks=follows_links).st_mode)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags if follows_links else flags | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        require(descriptor)
        file.seek(max(os.fstat(descriptor).st_size - most, 0))
        return file.read(most)


def _require(mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "it is a link, which is not followed")
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file")
