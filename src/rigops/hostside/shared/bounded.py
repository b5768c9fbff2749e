"""Runs programs that may hang or flood: each has a deadline, and bounds of what is kept of it.

One that cannot be ended, since its disk hangs, is left behind.
"""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO

ANSWER_S = 60.0
SILENCE_S = 600.0  # of a stream, without a byte
MOST_OUTPUT = 16 << 20
MOST_ERRORS = 64 << 10

_STOP_S = 20.0
_READ = 1 << 16


class ChildError(Exception):
    """It was ended. The text says what it did, without its name."""


class FloodError(ChildError):
    """It printed too much."""


class ChildAnswer(NamedTuple):
    """`errors`: the end of what it wrote there, without control characters."""

    code: int
    output: bytes
    errors: str


class BoundedChild:
    """Its errors are read meanwhile, so that it never waits for that. It has ended when left."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.process = subprocess.Popen(
            words,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=env,
            pass_fds=tuple(pass_fds),
        )
        self._errors = bytearray()
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()

    def __enter__(self) -> BoundedChild:  # noqa: PYI034 - Self is newer than Python 3.8
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def input(self) -> IO[bytes]:
        assert self.process.stdin is not None  # noqa: S101 - it was asked for
        return self.process.stdin

    @property
    def output(self) -> IO[bytes]:
        assert self.process.stdout is not None  # noqa: S101 - a pipe
        return self.process.stdout

    @property
    def errors(self) -> str:
        """Complete once it has ended."""
        if self.process.poll() is not None:
            self._reader.join(_STOP_S)
        return printable(bytes(self._errors))

    def wait(self, most_s: float) -> int:
        """Its exit status. It reads to the end of its input meanwhile, if it has one."""
        try:
            return self.process.wait(most_s)
        except subprocess.TimeoutExpired:
            self.stop()
            raise ChildError(f"did not end in {most_s:.0f} s") from None

    def read_all(self, most_s: float, most_bytes: int) -> bytes:
        end = time.monotonic() + most_s
        found = bytearray()
        ready = select.poll()
        ready.register(self.output.fileno(), select.POLLIN)
        while True:
            left = end - time.monotonic()
            if left <= 0 or not ready.poll(left * 1000):
                self.stop()
                raise ChildError(f"gave no answer in {most_s:.0f} s")
            part = os.read(self.output.fileno(), _READ)
            if not part:
                return bytes(found)
            found += part
            if len(found) > most_bytes:
                self.stop()
                raise FloodError(f"printed more than {most_bytes >> 10} KiB")

    def stop(self) -> None:
        """In order, where it has not ended by itself."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with suppress(OSError):
                    pipe.close()
        for end in (self.process.terminate, self.process.kill):
            if self.process.poll() is None:
                end()
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(_STOP_S)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None  # noqa: S101 - a pipe
        with self.process.stderr as pipe:
            while True:
                part = os.read(pipe.fileno(), _READ)
                if not part:
                    return
                self._errors += part
                del self._errors[:-MOST_ERRORS]


def run_bounded(
    words: Sequence[str],
    *,
    most_s: float = ANSWER_S,
    most_bytes: int = MOST_OUTPUT,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> ChildAnswer:
    """Its output, once it has ended. It reads nothing."""
    end = time.monotonic() + most_s
    with BoundedChild(words, stdout=subprocess.PIPE, env=env, pass_fds=pass_fds) as child:
        output = child.read_all(most_s, most_bytes)
        code = child.wait(max(1.0, end - time.monotonic()))
        return ChildAnswer(code, output, child.errors)


def printable(text: bytes | str) -> str:
    """Foreign text: nothing in it steers a terminal. The lines of ssh end as on a terminal."""
    known = text.decode(errors="replace") if isinstance(text, bytes) else text
    known = known.replace("\r\n", "\n")
    return "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in known)
