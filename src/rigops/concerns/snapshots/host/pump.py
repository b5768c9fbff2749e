"""Moves a stream from one program to another, and counts it."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK = 1 << 20
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ, which fcntl names from Python 3.10 on


def pump(source: int, sink: int, count: Callable[[int], None]) -> None:
    """Until the source ends, or nobody reads the sink. Both are pipes; `count` gets each part."""
    for pipe in (source, sink):
        with suppress(OSError):
            fcntl.fcntl(pipe, _SET_PIPE_SIZE, _CHUNK)
    splice = getattr(os, "splice", None)  # from Python 3.10 on
    move = splice or _copy
    while True:
        try:
            moved = move(source, sink, _CHUNK)
        except BrokenPipeError:
            return
        if not moved:
            return
        count(moved)


def _copy(source: int, sink: int, size: int) -> int:
    found = memoryview(os.read(source, size))
    done = 0
    while done < len(found):
        done += os.write(sink, found[done:])
    return done
