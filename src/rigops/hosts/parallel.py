"""Work on many hosts at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rigops.transport.clock import SLICE_S, start_thread

if TYPE_CHECKING:
    from concurrent.futures import Future

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
