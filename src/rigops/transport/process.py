"""A local process with bounded output and a deadline that takes its whole group along."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final, cast

from rigops.transport.connection import pieces
from rigops.transport.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rigops.transport.result import Sink

_BLOCK: Final = 256 * 1024
_GRACE: Final = 1.0


class Process:
    """Started at once, in a session of its own."""

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
        workers = [
            Worker(lambda: _drain(streams[0], out)),
            Worker(lambda: _drain(streams[1], err)),
            Worker(lambda: self._write(stdin)),
        ]
        done = False
        try:
            ended = [self._finish(worker) for worker in workers]
            code = process.wait()
            for worker, has_ended in zip(workers, ended, strict=True):
                if has_ended:
                    worker.value()
            done = True
        finally:
            if not done:
                self.kill()
        return max(code, -1)

    def _finish(self, worker: Worker[None]) -> bool:
        while not worker.finish(0.2):
            if self._killed:
                return worker.finish(_GRACE)
        return True

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
            process.wait(_GRACE)


def _drain(stream: IO[bytes], sink: Sink) -> None:
    with stream:
        while data := stream.read(_BLOCK):
            sink.feed(data)
