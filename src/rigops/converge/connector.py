"""pyinfra's commands over the one connection that rigops holds to a host."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.util import (
    CommandOutput,
    OutputLine,
    extract_control_arguments,
    make_unix_command_for_host,
)

from rigops.converge.memo import Memo
from rigops.operations.take_steps import TakeSteps
from rigops.operations.taking_steps import joined, script
from rigops.operations.telling import Saying, Telling
from rigops.transport import Result, TransportError
from rigops.transport.errors import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from io import IOBase

    from pyinfra.api.command import StringCommand
    from pyinfra.api.host import Host

    from rigops.transport import Connection, Privilege

_SEAT: Final = "rigops_seat"
_DEADLINE: Final = 600.0
_NEVER: Final = b"\0"  # no line begins so
_MOST_AT_ONCE: Final = 512 * 1024  # bytes of files that travel in one exec


class StepsFailedError(Exception):
    """Steps on owned files that had been put together did not succeed; the text is the host's."""


@dataclass
class Seat:
    """What the engine keeps for one host: how to reach it, what is known, what is still to do.

    `tell` hears what a command says of how far it is.
    """

    connection: Connection
    privilege: Privilege
    wrap: Callable[[Sequence[str]], list[str]] = list
    memo: Memo = field(default_factory=Memo)
    waiting: list[TakeSteps] = field(default_factory=list)
    tell: Callable[[str], None] = lambda _: None
    lost: TransportError | None = None  # what pyinfra, on its way out, makes nothing of

    def run(self, argv: Sequence[str], stdin: bytes, deadline_s: float) -> Result:
        return self.connection.run(
            [*self.privilege.argv, *argv],
            stdin=self.privilege.preamble + stdin,
            deadline_s=deadline_s,
        )

    def hear(self, argv: Sequence[str], stdin: bytes, deadline_s: float) -> Result:
        """As `run`, with the lines of its output told as they come."""
        holding = self.connection.hold(
            [*self.privilege.argv, *argv],
            stdin=self.privilege.preamble + stdin,
            ready=_NEVER,
            deadline_s=deadline_s,
            tell=self._tell_line,
        )
        holding.release()
        code = holding.ended
        return Result(
            exit_code=-1 if code is None else code,
            stdout="\n".join(holding.said).encode(),
            stderr=holding.complained,
        )

    def _tell_line(self, line: str) -> None:
        if text := clean(line):
            self.tell(text)

    def settle(self) -> None:
        """Carry out, in one exec, the steps that operations have asked for."""
        if not self.waiting:
            return
        work = joined([command.work for command in self.waiting])
        self.waiting.clear()
        result = self.run(self.wrap(["sh", "-s"]), script(work).encode(), _DEADLINE)
        if result.exit_code != 0:
            self.memo.command_is_run()
            said = " ".join((result.stderr or result.stdout).decode(errors="replace").split())
            raise StepsFailedError(said or "the host did not say why")


def seat_of(host: Host) -> Seat:
    seat: Seat = host.connector_data[_SEAT]
    return seat


def take_seat(host: Host, seat: Seat) -> None:
    host.connector_data[_SEAT] = seat


class RigConnector(BaseConnector):
    """Never connects by itself: reaching a host is a stage, and was done before."""

    handles_execution = True

    @staticmethod
    def make_names_data(name: str) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        yield name, {}, []

    def run_shell_command(
        self,
        command: StringCommand,
        print_output: bool = False,  # noqa: ARG002, FBT001, FBT002 - pyinfra's signature
        print_input: bool = False,  # noqa: ARG002, FBT001, FBT002 - pyinfra's signature
        **arguments: Any,
    ) -> tuple[bool, CommandOutput]:
        seat = seat_of(self.host)
        try:
            if isinstance(command, TakeSteps):
                seat.memo.steps_are_taken(command)
                seat.waiting.append(command)
                if sum(one.size for one in seat.waiting) > _MOST_AT_ONCE:
                    seat.settle()
                return True, CommandOutput([])
            seat.settle()
            return self._run(seat, command, arguments)
        except TransportError as error:
            seat.lost = error
            raise OSError(str(error)) from error

    def _run(
        self, seat: Seat, command: StringCommand, arguments: dict[str, Any]
    ) -> tuple[bool, CommandOutput]:
        changes = seat.memo.command_is_run()
        control = extract_control_arguments(arguments)  # type: ignore[arg-type]  # it pops from any dict
        accepted = control.get("_success_exit_codes") or [0]
        line = make_unix_command_for_host(self.state, self.host, command, **arguments)
        argv = shlex.split(line.get_raw_value())
        if isinstance(command, Saying) and command.says:
            seat.tell(command.says)
        carry_out = seat.hear if isinstance(command, Telling) else seat.run
        result = carry_out(
            seat.wrap(argv) if changes else argv,
            _bytes(control.get("_stdin")),
            control.get("_timeout") or _DEADLINE,
        )
        lines = [OutputLine("stdout", text) for text in _lines(result.stdout)]
        lines += [OutputLine("stderr", text) for text in _lines(result.stderr)]
        return result.exit_code in accepted, CommandOutput(lines)

    def put_file(
        self,
        filename_or_io: str | IOBase,  # noqa: ARG002 - pyinfra's signature
        remote_filename: str,
        *_: object,
        **__: object,
    ) -> bool:
        raise OSError(f"rigops' operations bring {remote_filename} along in their own command")

    def get_file(
        self,
        remote_filename: str,
        *_: object,
        **__: object,
    ) -> bool:
        raise OSError(f"rigops reads {remote_filename} through facts only")


def _bytes(given: object) -> bytes:
    if given is None:
        return b""
    if isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, (list, tuple)):
        return "".join(f"{line}\n" for line in given).encode()
    raise TypeError(f"cannot send {type(given).__name__} to a command")


def _lines(output: bytes) -> list[str]:
    return output.decode(errors="replace").splitlines()
