"""Deadlines that hold even where a library waits for ever, and work in threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self  # from Python 3.11 on in typing

T = TypeVar("T")

SLICE_S: Final = 1.0


def start_thread(work: Callable[[], T]) -> Future[T]:
    """In a daemon thread: the end of this process waits for an executor's, not for these."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            future.set_exception(error)

    threading.Thread(target=run, name="rigops-worker", daemon=True).start()
    return future


def has_ended(future: Future[T], within_s: float) -> bool:
    clock = Clock(within_s)
    while not wait((future,), clock.slice()).done:
        if clock.left() <= 0:
            return False
    return True


class Clock:
    """Time that is left; it stops while a person is being asked."""

    def __init__(self, allowed: float) -> None:
        self.allowed = allowed
        self._end = time.monotonic() + allowed
        self._frozen: float | None = None

    def left(self) -> float:
        """Seconds left, negative when over."""
        return self._end - time.monotonic() if self._frozen is None else self._frozen

    def wait(self) -> float:
        """Seconds left as a waiting time: never negative, never the 0 that means "do not block"."""
        return max(self.left(), 0.001)

    def slice(self) -> float:
        """How long to wait at once: a signal that comes just before a wait does not end it."""
        return min(self.wait(), SLICE_S)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        self._frozen = self.left()
        try:
            yield
        finally:
            self._end = time.monotonic() + self._frozen
            self._frozen = None


class Watch:
    """Calls `stop` from a thread of its own when the clock has run out.

    The blocked call then fails or returns early, and `expired` says why.
    """

    def __init__(self, clock: Clock, stop: Callable[[], None]) -> None:
        self.clock = clock
        self.step = ""
        self.expired = False
        self._stop = stop
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._guard, name="rigops-deadline", daemon=True)

    def _guard(self) -> None:
        while not self._done.wait(self.clock.wait()):
            if self.clock.left() <= 0:
                self.expired = True
                with suppress(Exception):  # `expired` is what the command reports
                    self._stop()
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
