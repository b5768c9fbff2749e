"""Moves a stream from one program to another, and counts it. Neither side may fall silent."""

from __future__ import annotations

import fcntl
import os
import select
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rigops.concerns.snapshots.host.send_stream import LONGEST_COMMAND
from rigops.hostside.shared.bounded import SILENCE_S, ChildError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.concerns.snapshots.host.send_stream import StreamCheck

_CHUNK = 1 << 20
_CHECKED_CHUNK = 256 << 10  # stays in the cache of a processor
_LITTLE = 32 << 10  # less than a command with data
_PAUSE_S = 0.002
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ, which fcntl names from Python 3.10 on


class SilentError(ChildError):
    """A program neither went on nor ended, or took nothing."""


class ReaderGoneError(Exception):
    """Nobody reads what is moved."""


def pump(
    source: int, sink: int, count: Callable[[int], None], silence_s: float = SILENCE_S
) -> None:
    """Until the source ends, or nobody reads the sink. One is a pipe; `count` gets each part."""
    both = _Both(source, sink, silence_s)
    splice = getattr(os, "splice", None)  # from Python 3.10 on
    with suppress(ReaderGoneError):
        while both.has_more():
            moved = both.move(splice) if splice else both.write_part()
            if not moved:
                return
            count(moved)
            _let_more_come(moved)


def pump_checked(
    source: int,
    sink: int,
    check: StreamCheck,
    count: Callable[[int], None],
    silence_s: float = SILENCE_S,
) -> None:
    """As `pump`; only what the check lets pass. The caller asks it whether that was all."""
    both = _Both(source, sink, silence_s)
    stream = bytearray(LONGEST_COMMAND + 2 * _CHECKED_CHUNK)
    view = memoryview(stream)
    filled = 0
    with suppress(ReaderGoneError):
        while both.has_more():
            found = os.readv(source, [view[filled : filled + _CHECKED_CHUNK]])
            if not found:
                return
            filled += found
            passed = check.take(stream, filled)
            both.write(view[:passed])
            stream[: filled - passed] = stream[passed:filled]
            filled -= passed
            count(found)
            _let_more_come(found)


def _let_more_come(moved: int) -> None:
    """Or more room: many small steps would cost more than what they move."""
    if moved < _LITTLE:
        time.sleep(_PAUSE_S)


class _Both:
    def __init__(self, source: int, sink: int, silence_s: float) -> None:
        for pipe in (source, sink):
            with suppress(OSError):
                fcntl.fcntl(pipe, _SET_PIPE_SIZE, _CHUNK)
        os.set_blocking(sink, False)
        self._source, self._sink = source, sink
        self._minutes = silence_s / 60
        self._either = select.poll()
        self._either.register(source, select.POLLIN)
        self._either.register(sink, 0)  # whether nobody reads it is told unasked
        self._room = select.poll()
        self._room.register(sink, select.POLLOUT)

    def has_more(self) -> bool:
        """Or has come to its end. False: nobody reads the sink."""
        found = dict(self._either.poll(self._minutes * 60_000))
        if not found:
            raise SilentError(f"nothing came for {self._minutes:.0f} min")
        return not found.get(self._sink)

    def move(self, splice: Callable[[int, int, int], int]) -> int:
        while True:
            self._wait_for_room()
            try:
                return splice(self._source, self._sink, _CHUNK)
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise ReaderGoneError from None

    def write_part(self) -> int:
        return self.write(memoryview(os.read(self._source, _CHUNK)))

    def write(self, part: memoryview) -> int:
        done = 0
        while done < len(part):
            self._wait_for_room()
            try:
                moved = os.write(self._sink, part[done:])
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise ReaderGoneError from None
            done += moved
            if done < len(part):
                _let_more_come(moved)
        return done

    def _wait_for_room(self) -> None:
        if not self._room.poll(self._minutes * 60_000):
            raise SilentError(f"nothing was taken for {self._minutes:.0f} min")
