"""Processes, told apart from later ones with the same number by when they started."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Process:
        started = _started(pid)
        if started is None:
            raise ProcessLookupError(pid)
        return cls(pid, started)

    @classmethod
    def own(cls) -> Process:
        return cls.of(os.getpid())

    def lives(self) -> bool:
        return _started(self.pid) == self.started

    def kill(self) -> None:
        if self.lives():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        while self.lives():
            time.sleep(0.005)


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            found += [int(word) for word in (task / "children").read_text().split()]
    return found


def _started(pid: int) -> int | None:
    """Clock ticks since boot; None for one that is gone or only waits to be collected."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in {"Z", "X"} else int(words[19])
