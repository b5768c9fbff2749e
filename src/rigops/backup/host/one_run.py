"""One run at a time, that a signal ends in order."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rigops.backup.host.errors import HostError
from rigops.backup.host.volumes import RUN

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK_FILE = f"{RUN}/snapshots.lock"
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


class BusyError(HostError):
    """Another one works."""


def end_in_order() -> None:
    """A signal is raised where the program is; while it cleans up, further ones are ignored."""

    def interrupt(number: int, _frame: Any) -> None:
        for one in _ENDING:
            signal.signal(one, signal.SIG_IGN)
        raise Interrupted(number)

    for one in _ENDING:
        signal.signal(one, interrupt)


def go_on_to_the_end() -> None:
    """A half-finished swap would be worse than a moment's wait."""
    for one in _ENDING:
        signal.signal(one, signal.SIG_IGN)


@contextmanager
def only_run(
    path: str = _LOCK_FILE, *, wait_s: float = 0.0, works_on: str = "the snapshots"
) -> Iterator[None]:
    """The second one names the holder."""
    Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        end = time.monotonic() + wait_s
        while not _has_lock(file):
            if time.monotonic() >= end:
                age = max(0.0, time.time() - os.fstat(file.fileno()).st_mtime) / 60
                pid = file.read(32).decode(errors="replace").strip() or "unknown"
                raise BusyError(
                    f"another run works on {works_on} (process {pid}, for {age:.0f} min)",
                    "wait until it ends",
                )
            time.sleep(0.2)
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
        yield


def _has_lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
