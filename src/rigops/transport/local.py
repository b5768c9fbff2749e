"""This machine as if it were a host, and local processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import IO, Final, cast

from rigops.transport.clock import Clock, Watch, has_ended, start_thread
from rigops.transport.connection import Connection, Execution, pieces
from rigops.transport.errors import TransportError, timed_out
from rigops.transport.result import Sink

_BLOCK: Final = 256 * 1024
_GRACE_S: Final = 1.0


class LocalConnection(Connection):
    def __init__(self) -> None:
        super().__init__("@local", "this machine")
        self._closed = False

    def close(self) -> None:
        self._closed = True

    def _execute(self, execution: Execution, deadline_s: float) -> int:
        if self._closed:
            raise TransportError("lost", f"{self.description}: closed", host=self.name)
        process = Process(execution.argv)
        with Watch(Clock(deadline_s), process.kill) as watch:
            code = process.communicate(execution.stdin, execution.out, execution.err)
        if watch.expired:
            step = f"running {execution.label}"
            fix = "run it by hand to see what it waits for; it was killed"
            raise timed_out(self.name, self.description, step, deadline_s, fix)
        return code


class Process:
    """Started at once, in a session of its own, with bounded output."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._killed = False

    def communicate(self, stdin: bytes | Iterable[bytes], out: Sink, err: Sink) -> int:
        """Until all output has ended; -1 where a signal ended it."""
        process = self._process
        streams = [cast("IO[bytes]", stream) for stream in (process.stdout, process.stderr)]
        work = [
            start_thread(lambda: _drain(streams[0], out)),
            start_thread(lambda: _drain(streams[1], err)),
            start_thread(lambda: self._write(stdin)),
        ]
        done = False
        try:
            for one in work:
                while not has_ended(one, 0.2):
                    if self._killed:
                        has_ended(one, _GRACE_S)
                        break
            code = process.wait()
            for one in work:
                if one.done():
                    one.result()
            done = True
        finally:
            if not done:
                self.kill()
        return max(code, -1)

    def _write(self, stdin: bytes | Iterable[bytes]) -> None:
        pipe = cast("IO[bytes]", self._process.stdin)
        done = False
        try:
            for piece in pieces(stdin):
                view = memoryview(piece)
                while view:
                    view = view[pipe.write(view) :]
            done = True
        except (BrokenPipeError, ConnectionResetError):
            done = True  # it ended without reading all of it
        finally:
            if not done:
                self.kill()  # half an input must not look like a whole one
            with suppress(OSError):
                pipe.close()

    def kill(self) -> None:
        """The whole group, also what the first process left behind: TERM, then KILL."""
        kill_group(self._process)
        self._killed = True


def kill_group(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(OSError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)


def _drain(stream: IO[bytes], sink: Sink) -> None:
    try:
        with stream:
            while data := stream.read(_BLOCK):
                sink.feed(data)
    finally:
        sink.finish()
