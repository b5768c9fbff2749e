"""A thread that keeps what came of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Worker(Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._value: T | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="rigops-worker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as error:  # noqa: BLE001  raised again by value()
            self._error = error

    def finish(self, timeout: float) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()

    def value(self) -> T:
        if self._error is not None:
            raise self._error
        return cast("T", self._value)
