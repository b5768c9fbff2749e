"""A command that runs while others use the same connection, with its input open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import Empty, Queue
from typing import Final

from rigops.transport.clock import Clock, has_ended, start_thread
from rigops.transport.errors import TransportError
from rigops.transport.result import Framed, Store

_MOST: Final = 64 * 1024  # of its output
_BRIEFLY_S: Final = 5.0
# A backend that waits for input learns only by sending that its command or its connection has
# ended. A command that is held skips empty lines.
_BEAT: Final = b"\n"
_BEAT_S: Final = 2.0


class Holding:
    """Ends when it is released or its connection is lost; its command sees the end of its input."""

    def __init__(self, token: str, stdin: bytes) -> None:
        self._first = stdin
        self._last = b""
        self._over = threading.Event()
        self._lines: Queue[str | None] = Queue()
        self._printed: list[str] = []
        self._work: Future[int] | None = None
        self.out = _Lines(token, self._lines.put, self._over.set)
        self.err = Framed(token, _MOST)

    def input(self) -> Iterator[bytes]:
        yield self._first
        while not self._over.wait(_BEAT_S):
            yield _BEAT
        yield self._last

    def start(self, execute: Callable[[], int]) -> None:
        def work() -> int:
            try:
                return execute()
            finally:
                self._over.set()
                self._lines.put(None)

        self._work = start_thread(work)

    def wait(self, ready: bytes, deadline_s: float, on_line: Callable[[str], None]) -> bool:
        """Until it is ready or has ended; False when neither came in time."""
        clock = Clock(deadline_s)
        beginning = ready.decode()
        while clock.left() > 0:
            try:
                line = self._lines.get(timeout=clock.slice())
            except Empty:
                continue
            if line is None:
                self.err.finish()
                if self._work is not None:
                    self._work.result()  # raises where the connection was lost
                return True
            self._printed.append(line)
            if line.startswith(beginning):
                return True
            on_line(line)
        return False

    def close_input(self, last: bytes = b"") -> None:
        """Close its input after these last bytes, and wait for nothing."""
        self._last = last
        self._over.set()

    def release(self, last: bytes = b"") -> None:
        """Close its input after these last bytes, and give it a moment to end."""
        self.close_input(last)
        if self._work is not None:
            has_ended(self._work, _BRIEFLY_S)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines it printed until it was ready or ended."""
        return tuple(self._printed)

    @property
    def error_output(self) -> bytes:
        """Once it has ended: its stderr, and what the login shell printed."""
        return self.out.noise + self.err.noise.take() + self.err.body.take()

    @property
    def ended(self) -> int | None:
        """Its exit code, -1 where it was lost with its connection, None while it is held."""
        if self._work is None or not self._work.done():
            return None
        try:
            return self._work.result()
        except TransportError:
            return -1


class _Lines:
    """Lines as they come, without what the login shell prints before them."""

    def __init__(self, token: str, line: Callable[[str], None], ended: Callable[[], None]) -> None:
        self._opening = f"{token} begin ".encode()
        self._closing = f"{token} end ".encode()
        self._line = line
        self._ended = ended
        self._held = b""
        self._room = _MOST
        self._began = False
        self._noise = Store(_MOST)

    @property
    def noise(self) -> bytes:
        return self._noise.take()

    def finish(self) -> None:
        self._ended()

    def feed(self, data: bytes) -> None:
        *lines, self._held = (self._held + data).split(b"\n")
        self._held = self._held[-_MOST:]
        for line in lines:
            if not self._began:
                before, opening, _ = line.partition(self._opening)
                self._began = bool(opening)
                if before:
                    self._noise.feed(before + b"\n")
                continue
            text, closing, _ = line.partition(self._closing)
            if text or not closing:
                self._room -= len(text) + 1
                if self._room >= 0:
                    self._line(text.decode("utf-8", "replace"))
            if closing:
                self._ended()
