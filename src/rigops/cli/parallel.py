"""One function for many hosts at once, each in its own thread."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Host = TypeVar("Host")
Outcome = TypeVar("Outcome")

_AT_ONCE = 64
_HEARTBEAT_S = 0.5


def for_each(hosts: Sequence[Host], work: Callable[[Host], Outcome]) -> list[Outcome]:
    """Outcomes in the order of the hosts; an exception from `work` ends all.

    Threads are daemons: Ctrl-C does not wait for a host that hangs.
    """
    waiting: queue.SimpleQueue[tuple[int, Host]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Outcome | BaseException]] = queue.SimpleQueue()
    for numbered in enumerate(hosts):
        waiting.put(numbered)

    def run() -> None:
        while True:
            try:
                number, host = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((number, work(host)))
            except BaseException as error:  # noqa: BLE001 - raised again where it can be reported
                done.put((number, error))

    for _ in range(min(_AT_ONCE, len(hosts))):
        threading.Thread(target=run, daemon=True).start()
    outcomes: dict[int, Outcome] = {}
    while len(outcomes) < len(hosts):
        try:
            number, outcome = done.get(timeout=_HEARTBEAT_S)
        except queue.Empty:
            continue
        if isinstance(outcome, BaseException):
            raise outcome
        outcomes[number] = outcome
    return [outcomes[number] for number in range(len(hosts))]
