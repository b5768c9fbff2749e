"""This machine, as if it were a host."""

from __future__ import annotations

from rigops.transport.clock import Clock, Watch
from rigops.transport.connection import Connection, Execution
from rigops.transport.errors import TransportError, timed_out
from rigops.transport.process import Process


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
            raise timed_out(self.name, self.description, step, deadline_s, "it was ended")
        return code
