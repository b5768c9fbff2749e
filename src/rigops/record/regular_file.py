"""Reading a record of this machine that may be no file, or one without end."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def require(descriptor: int) -> None:
    """Raises OSError for a folder, and for a pipe or device, on which a run would wait."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")


def read(path: Path, *, most: int) -> bytes:
    """Raises OSError where it has more bytes than that."""
    data = read_end(path, most=most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most // 2**20} MiB")
    return data


def read_end(path: Path, *, most: int) -> bytes:
    """The last so many bytes of it."""
    # Opening a pipe must not wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        require(descriptor)
        file.seek(max(os.fstat(descriptor).st_size - most, 0))
        return file.read(most)
