"""Runs a command that may hang for ever, and waits for none of it longer than its deadline.

A process that waits in the kernel cannot be ended. It is left alone then, and its command is not
run again while it is there: else every run would leave another one behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_SESSION: Final = 3  # of what follows the name in /proc/PID/stat
_MOST_BYTES: Final = 256 * 1024
_KILLED_S: Final = 2.0


@dataclass(frozen=True)
class Asked:
    """`code` is None where it could not be run or did not end, which `trouble` says."""

    output: str = ""
    code: int | None = None
    trouble: str = ""


class Asker:
    """`file` keeps what still hangs, by name; it goes with a reboot, as that does."""

    def __init__(self, file: Path, proc: Path) -> None:
        self._file = file
        self._proc = proc
        self._hung: dict[str, int] = {}
        with suppress(OSError, ValueError, AttributeError):
            known: dict[str, Any] = json.loads(file.read_text())
            self._hung = {name: int(its) for name, its in known.items()}

    def ask(self, name: str, words: Sequence[str], deadline_s: float) -> Asked:
        session = self._hung.get(name)
        if session is not None and session in self._sessions():
            return Asked(trouble="not run again: an earlier call of it hangs in the kernel")
        self._hung.pop(name, None)
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except FileNotFoundError:
                return Asked(trouble=f"{words[0]} is not there; rigops apply installs its own")
            except OSError as error:
                return Asked(trouble=f"{words[0]}: {error.strerror}")
            code = _code(process, deadline_s)
            if process.pid in self._sessions():
                self._hung[name] = process.pid
            output.seek(0)
            text = output.read(_MOST_BYTES).decode("utf-8", "replace")
        trouble = "" if code is not None else f"no answer in {deadline_s:.0f} s"
        return Asked(text, code, trouble)

    def close(self) -> None:
        with suppress(OSError):
            if self._hung:
                self._file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                self._file.write_text(json.dumps(self._hung))
            elif self._file.exists():
                self._file.unlink()

    def _sessions(self) -> set[int]:
        found: set[int] = set()
        for stat in self._proc.glob("[0-9]*/stat"):
            with suppress(OSError, ValueError, IndexError):
                text = stat.read_text(errors="replace")
                state, *rest = text.rpartition(")")[2].split()
                if state != "Z":
                    found.add(int(rest[_SESSION - 1]))
        return found


def _code(process: subprocess.Popen[bytes], deadline_s: float) -> int | None:
    try:
        return process.wait(deadline_s)
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_KILLED_S)
        return None
