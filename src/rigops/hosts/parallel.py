"""Work on many hosts at once, and the console of a person who watches it and is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from rigops.transport.clock import SLICE_S, start_thread

if TYPE_CHECKING:
    from rigops.backup.engine import Progress as Copied

Host = TypeVar("Host")
Outcome = TypeVar("Outcome")

_AT_ONCE = 64


def for_each(
    hosts: Sequence[Host],
    work: Callable[[Host], Outcome],
    meanwhile: Callable[[], None] = lambda: None,
) -> list[Outcome]:
    """Outcomes in the order of the hosts; an exception from `work` ends all.

    Each host has a thread, which Ctrl-C does not wait for.
    """
    gate = threading.Semaphore(_AT_ONCE)

    def run(host: Host) -> Outcome:
        with gate:
            return work(host)

    futures = [start_thread(partial(run, host)) for host in hosts]
    meanwhile()
    waiting: Collection[Future[Outcome]] = futures
    while waiting:
        done, waiting = wait(waiting, SLICE_S, FIRST_EXCEPTION)
        for future in done:
            future.result()
    return [future.result() for future in futures]


class HostProgress(Protocol):
    """The present step of each host. Used by several threads at once."""

    def begin(self, host: str) -> None: ...
    def say(self, host: str, text: str) -> None: ...
    def say_copied(self, host: str, found: Copied) -> None: ...
    def end(self, host: str, outcome: str) -> None: ...
    @property
    def unfinished(self) -> list[str]: ...
    def silent(self) -> AbstractContextManager[None]:
        """Surrounds a question, and lines that are printed meanwhile."""
        ...


class Console(Protocol):
    def tell(self, *lines: str) -> None: ...
    def progress(self, doing: str, /) -> AbstractContextManager[HostProgress]: ...
    def agrees(self, question: str) -> bool:
        """Not where there is no terminal to answer on."""
        ...
