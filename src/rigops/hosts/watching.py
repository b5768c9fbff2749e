"""Hosts watched over one connection each, many at once; one that is lost is tried again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from queue import Empty, Queue
from typing import Final

from rigops.dataclass import dataclass
from rigops.errors import HostError, UsageError
from rigops.hosts.access import Chosen, HostAccess
from rigops.hosts.probing import internal_error
from rigops.hostside.packing import pack
from rigops.probe.script import PATH
from rigops.transport import Connection, Privilege, TransportError
from rigops.transport.clock import SLICE_S, start_thread
from rigops.transport.errors import clean

_AGAIN_S: Final = 5.0
_FOR_GOOD_S: Final = 10 * 365 * 24 * 3600.0
_KEPT: Final = 4096  # of its output, for an error
_MOST: Final = 10_000  # lines that wait to be shown; then the hosts wait, too
_ENDING_S: Final = 5.0
_GLANCE_S: Final = 0.05
# A backend that waits for input learns only by sending that its connection has ended.
_BEAT_S: Final = 2.0
# Nothing that a retry would change without a person.
_FINAL: Final = frozenset({"auth", "key_unknown", "key_changed", "sudo", "fault"})

# A group of its own, so that all of it can be ended; and the program from its input, since sudo
# logs every word of a command.
_APART: Final = 'command -v setsid >/dev/null && exec setsid "$@"; exec "$@"'
_LOAD: Final = 'n=$1; shift; eval "$(dd bs=1 count="$n" 2>/dev/null)"'
_HEAD: Final = f"PATH={PATH}\nLC_ALL=C\nexport PATH LC_ALL\n"


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """`seconds`: between two samples. `root`: whether sudo may be used for the kernel log."""

    access: HostAccess
    seconds: int
    root: bool = True


@dataclass(frozen=True)
class Heard:
    """A line of the host's program; or why there is none, or that a new connection begins.

    `is_over`: the host is not tried again.
    """

    host: str
    line: str = ""
    error: HostError | None = None
    is_new: bool = False
    is_over: bool = False


class Watching:
    """Starts at once. `end` is to be called, and waits until the hosts' programs are gone."""

    def __init__(self, chosen: Sequence[Chosen], options: WatchOptions) -> None:
        self._options = options
        self._program = (_HEAD + pack("watch").text).encode()
        self._over = threading.Event()
        self._heard: Queue[Heard] = Queue(_MOST)
        self._work: list[Future[None]] = [start_thread(partial(self._watch, one)) for one in chosen]

    def heard(self) -> Iterator[Heard | None]:
        """None about each second without news. Ends when no host is tried again."""
        while True:
            try:
                heard = self._heard.get(timeout=SLICE_S)
            except Empty:
                if all(one.done() for one in self._work):
                    break
                heard = None
            yield heard

    def end(self) -> list[Heard]:
        """What had still come, for at most some seconds."""
        self._over.set()
        end, left = time.monotonic() + _ENDING_S, []
        while True:
            is_over = all(one.done() for one in self._work) or time.monotonic() > end
            while not self._heard.empty():
                left.append(self._heard.get())
            if is_over:
                return left
            time.sleep(_GLANCE_S)

    def _watch(self, host: Chosen) -> None:
        while not self._over.is_set():
            try:
                error = self._follow(host)
            except TransportError as lost:
                error = HostError(lost.kind, str(lost), lost.fix)
            except UsageError as wrong:
                error = HostError("fault", str(wrong))
            except Exception as unforeseen:  # noqa: BLE001 - logged and reported
                error = internal_error(host.name, unforeseen)
            if self._over.is_set():
                return
            is_over = error.kind in _FINAL
            self._heard.put(Heard(host.name, error=error, is_over=is_over))
            if is_over:
                return
            self._over.wait(_AGAIN_S)

    def _follow(self, host: Chosen) -> HostError:
        """Until its program ends, which it does not by itself."""
        with self._options.access.open(host.target) as (connection, privilege):
            self._heard.put(Heard(host.name, is_new=True))
            return self._run(host, connection, privilege)

    def _run(self, host: Chosen, connection: Connection, privilege: Privilege) -> HostError:
        def hear(line: bytes) -> None:
            self._heard.put(Heard(host.name, line.decode("utf-8", "replace")))

        root = "1" if self._options.root else "0"
        load = ("sh", "-c", _LOAD, "rigops-watch", str(len(self._program)))
        ended = connection.run_script(
            self._input(),
            argv=("sh", "-c", _APART, "rigops-watch", *load, str(self._options.seconds), root),
            privilege=privilege if privilege.kind == "password" else None,
            deadline_s=_FOR_GOOD_S,
            max_output=_KEPT,
            on_line=hear,
        )
        words = clean(ended.stderr or ended.login_noise) or f"exit code {ended.exit_code}"
        return HostError("lost", f"{host.name}: the program on the host ended: {words}")

    def _input(self) -> Iterator[bytes]:
        yield self._program
        while not self._over.wait(_BEAT_S):
            yield b"\n"
