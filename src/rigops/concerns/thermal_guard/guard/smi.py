"""nvidia-smi, one call at a time, for which nobody ever waits."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_BYTES = 256 * 1024
_NOT_STARTED = 127


class Answer(NamedTuple):
    """`code`: None where it did not end in time. `asked`: when it was started."""

    purpose: str
    asked: float
    code: int | None
    text: str


class _Call(NamedTuple):
    purpose: str
    asked: float
    process: subprocess.Popen[bytes]
    output: int


class Smi:
    """A call that waits in the kernel cannot be ended: until it has, no other is made."""

    def __init__(self, answer_s: float) -> None:
        self._answer_s = answer_s
        self._call: _Call | None = None
        self._failed: Answer | None = None
        self.is_stuck = False

    @property
    def is_busy(self) -> bool:
        return self._call is not None or self._failed is not None

    def start(self, now: float, purpose: str, arguments: Sequence[str]) -> None:
        output = os.memfd_create("nvidia-smi")  # no disk has to have room for it
        try:
            process = subprocess.Popen(
                ["nvidia-smi", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            os.close(output)
            text = f"nvidia-smi cannot be started: {error.strerror}"
            self._failed = Answer(purpose, now, _NOT_STARTED, text)
        else:
            self._call = _Call(purpose, now, process, output)

    def poll(self, now: float) -> Answer | None:
        """The result of the call, once."""
        call = self._call
        if call is None:
            failed, self._failed = self._failed, None
            return failed
        code = call.process.poll()
        if code is None:
            if self.is_stuck or now - call.asked < self._answer_s:
                return None
            self.is_stuck = True
            call.process.kill()
            return Answer(call.purpose, call.asked, None, "")
        was_stuck, self.is_stuck, self._call = self.is_stuck, False, None
        text = os.pread(call.output, _MOST_BYTES, 0).decode("utf-8", "replace")
        os.close(call.output)
        return None if was_stuck else Answer(call.purpose, call.asked, code, text)
