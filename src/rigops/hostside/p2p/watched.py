"""Runs a job in a child that may hang in the kernel, and gets away from it in any case.

The child has a session of its own and reports each step as a JSON line. A child that survives
KILL is left behind: waiting for it would hang as well.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    Say = Callable[..., None]
    Job = Callable[[Say], None]
    OnStep = Callable[[str, str], None]  # what it does, on which rung

_AFTER_TERM: Final = 0.5
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG
_MOST_TEXT: Final = 64 * 1024
_THREADS_SHOWN: Final = 8
_PAUSE: Final = 0.02

# A job reports it after its slow beginning: from then on its own limit counts.
READY: Final = "ready"
# A job reports it while it waits, with the seconds so far.
STILL: Final = "still"


@dataclass(frozen=True)
class Patience:
    """Seconds: until the child is ready, from then to its end, and for dying after KILL."""

    ready: float
    done: float
    dead: float = 3.0


@dataclass
class Ended:
    messages: list[dict[str, Any]] = field(default_factory=list)
    text: str = ""  # what came that was no JSON line
    step: str = "starting"
    at_step_s: float = 0.0  # how long it has been at that step
    overdue: bool = False
    stuck: bool = False  # even KILL did not end it
    how: str = ""  # its exit, in words, when it was not the normal one
    evidence: list[str] = field(default_factory=list)

    def last(self, name: str) -> Any:  # noqa: ANN401 - whatever the job said under that name
        found = [line[name] for line in self.messages if name in line]
        return found[-1] if found else None


def watch(job: Job, patience: Patience, on_step: OnStep) -> Ended:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _be_child(job, writer)
    os.close(writer)
    ended = Ended()
    try:
        overdue = _listen(reader, ended, patience, on_step)
    finally:
        os.close(reader)
    if not overdue and _reap(child, ended, patience.dead):
        return ended
    ended.overdue = True
    ended.evidence += _look_at(child)
    ended.stuck = not _kill(child, ended, patience.dead)
    if ended.stuck:
        ended.evidence += [f"KILL did not end process {child}", *_look_at(child)]
    return ended


def _be_child(job: Job, writer: int) -> None:
    code = 1
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        os.closerange(3, 64)
        job(_say)
        code = 0
    except BaseException:  # noqa: BLE001 - a fork must never go on as a second parent
        os.write(1, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _say(**words: object) -> None:
    line = json.dumps(words).encode() + b"\n"
    while line:
        line = line[os.write(1, line) :]


def _listen(reader: int, ended: Ended, patience: Patience, on_step: OnStep) -> bool:
    """Until the child closes its end, which is when it dies; True when its time is up."""
    begun = time.monotonic()
    until = begun + patience.ready
    held = b""
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            ended.at_step_s = time.monotonic() - begun
            return True
        data = os.read(reader, 1 << 16)
        *lines, held = (held + data).split(b"\n")
        for line in lines if data else [held]:
            message = _hear(line, ended)
            if READY in message:
                until = time.monotonic() + patience.done
            if "step" in message:
                begun = time.monotonic()
                on_step(ended.step, ended.last("rung") or "")
            elif STILL in message:
                late = f"{ended.step}, still running after {message[STILL]:.0f} s"
                on_step(late, ended.last("rung") or "")
        if not data:
            return False


def _hear(line: bytes, ended: Ended) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        text = line.decode("utf-8", "replace")
        ended.text = (ended.text + text + "\n")[-_MOST_TEXT:] if text else ended.text
        return {}
    ended.step = message.get("step", ended.step)
    ended.messages.append(message)
    return message


def _kill(child: int, ended: Ended, patience: float) -> bool:
    _signal(child, signal.SIGTERM)
    if _reap(child, ended, _AFTER_TERM):
        _signal(child, signal.SIGKILL)  # what it may have started itself
        return True
    _signal(child, signal.SIGKILL)
    return _reap(child, ended, patience)


def _signal(child: int, number: int) -> None:
    with suppress(OSError):  # it is gone already
        os.killpg(child, number)


def _reap(child: int, ended: Ended, patience: float) -> bool:
    """Look again and again: only the hung process could end a wait."""
    until = time.monotonic() + patience
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            if os.WIFSIGNALED(status):
                ended.how = f"ended by signal {os.WTERMSIG(status)}"
            elif os.WEXITSTATUS(status):
                ended.how = f"ended with exit code {os.WEXITSTATUS(status)}"
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(_PAUSE)


def _look_at(process: int) -> list[str]:
    """Tell where in the kernel its threads are: D is a sleep that no signal ends."""
    found = []
    for thread in sorted(Path(f"/proc/{process}/task").glob("*"), key=lambda path: int(path.name)):
        state = _read(thread / "stat").rpartition(")")[2].split()[:1]
        wchan = _read(thread / "wchan").strip()
        if state:
            where = f", waiting in {wchan}" if wchan not in ("", "0") else ""
            found.append(f"thread {thread.name} is in state {state[0]}{where}")
    return found[:_THREADS_SHOWN]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
