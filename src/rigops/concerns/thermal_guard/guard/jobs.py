"""The processes that compute on a card: found, and ended."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_ROW = re.compile(r"(GPU-[0-9A-Za-z-]{1,80}) *, *([0-9]{1,10})")
_COMPUTES = "/dev/nvidia-uvm"  # what only shows a picture does not open it
_START_FIELD = 19  # of /proc/PID/stat, after the name


class Job(NamedTuple):
    """`start`: when it was started, as the kernel counts, since numbers are reused."""

    pid: int
    start: str


def parse_jobs(text: str) -> dict[str, set[int]]:
    """By UUID, of `nvidia-smi --query-compute-apps=gpu_uuid,pid`."""
    found: dict[str, set[int]] = {}
    for uuid, pid in _ROW.findall(text):
        found.setdefault(uuid, set()).add(int(pid))
    return found


def holders(system: Path, addresses: Collection[str]) -> set[int]:
    """Without an answer of the driver: who computes and has the device of such a card open."""
    minors = {minor for address in addresses for minor in _minors(system, address)}
    found = set()
    for folder in (system / "proc").glob("[0-9]*"):
        nodes = set(_open_files(folder))
        if _COMPUTES in nodes and any(f"/dev/nvidia{minor}" in nodes for minor in minors):
            found.add(int(folder.name))
    return found


def _minors(system: Path, address: str) -> Iterator[str]:
    with suppress(OSError):
        text = (system / "proc/driver/nvidia/gpus" / address / "information").read_text()
        yield from re.findall(r"Device Minor:\s*([0-9]{1,4})", text)


def _open_files(folder: Path) -> Iterator[str]:
    with suppress(OSError):
        for link in (folder / "fd").iterdir():
            with suppress(OSError):
                yield os.readlink(str(link))  # noqa: PTH115 - Python 3.8


class Stopper:
    """TERM first, and KILL for what still runs after `grace_s`."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._asked: dict[Job, float] = {}
        self._killed: set[Job] = set()

    @property
    def is_waiting(self) -> bool:
        return any(_started(job.pid) == job.start for job in self._asked)

    def stop(self, now: float, pids: Collection[int]) -> Iterator[str]:
        """The actions, in words. Jobs that were asked before are followed up too."""
        for pid in sorted(pids):
            start = _started(pid)
            if start and pid not in {1, os.getpid()} and Job(pid, start) not in self._asked:
                self._asked[Job(pid, start)] = now
                yield f"TERM to {_name(pid)} ({pid})"
                _send(pid, signal.SIGTERM)
        for job, asked in list(self._asked.items()):
            if _started(job.pid) != job.start:
                del self._asked[job]
                self._killed.discard(job)
            elif now - asked >= self._grace_s and job not in self._killed:
                self._killed.add(job)
                yield f"KILL to {_name(job.pid)} ({job.pid}), which runs on after TERM"
                _send(job.pid, signal.SIGKILL)


def _send(pid: int, number: int) -> None:
    with suppress(OSError):
        os.kill(pid, number)


def _started(pid: int) -> str:
    """Nothing where it is gone, or only waits for its parent to notice."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return fields[_START_FIELD] if len(fields) > _START_FIELD and fields[0] not in "ZX" else ""


def _name(pid: int) -> str:
    """Its short name only: a command line may hold secrets."""
    try:
        text = Path(f"/proc/{pid}/comm").read_text(errors="replace")
    except OSError:
        return "a process"
    return "".join(letter for letter in text if letter.isprintable()) or "a process"
