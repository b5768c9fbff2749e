"""pyinfra's commands over the one connection that rigops holds to a host."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from io import IOBase
from typing import Any, Final, cast

from pyinfra.api.command import StringCommand
from pyinfra.api.host import Host
from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.util import (
    CommandOutput,
    OutputLine,
    extract_control_arguments,
    make_unix_command_for_host,
)

from rigops.converge.errors import DeployError
from rigops.converge.fact_cache import FactCache
from rigops.dataclass import dataclass
from rigops.ownership.file_work import RELOADING, joined, script
from rigops.ownership.file_work_command import FileWorkCommand
from rigops.plan.commands import ReportedCommand, StreamingCommand
from rigops.plan.context import is_reported
from rigops.transport import Connection, Privilege, Result, TransportError
from rigops.transport.errors import clean

_DEADLINE: Final = 600.0
_NEVER: Final = b"\0"  # no line begins so
FOREIGN: Final = (
    "this operation does not report its changes, so no plan can show them: use an operation of "
    "rigops, or run this deploy with plain pyinfra"
)
_MOST_AT_ONCE: Final = 512 * 1024  # bytes of files that travel in one exec


@dataclass
class HostChannel:
    """How commands get to one host, what is known about it, and what is still to be sent.

    `tell` gets what a command reports of its progress.
    """

    connection: Connection
    privilege: Privilege
    wrap: Callable[[Sequence[str]], list[str]] = list
    cache: FactCache = field(default_factory=FactCache)
    waiting: list[FileWorkCommand] = field(default_factory=list)
    tell: Callable[[str], None] = lambda _: None
    lost: TransportError | None = None  # pyinfra itself drops the reason
    has_changed_units: bool = False  # their content, since the last reload

    def run(self, argv: Sequence[str], stdin: bytes, deadline_s: float) -> Result:
        return self.connection.run(
            argv, stdin=stdin, privilege=self.privilege, deadline_s=deadline_s
        )

    def run_streaming(self, argv: Sequence[str], stdin: bytes, deadline_s: float) -> Result:
        """As `run`, and its lines of output are progress, as they come."""
        holding = self.connection.hold(
            argv,
            stdin=stdin,
            privilege=self.privilege,
            ready=_NEVER,
            deadline_s=deadline_s,
            on_line=lambda line: self.tell(text) if (text := clean(line)) else None,
        )
        holding.release()
        code = holding.ended
        return Result(
            exit_code=-1 if code is None else code,
            stdout="\n".join(holding.lines).encode(),
            stderr=holding.error_output,
        )

    def flush(self) -> None:
        """Carry out, in one exec, the steps that operations have asked for."""
        if not self.waiting:
            return
        work = joined([command.work for command in self.waiting])
        self.waiting.clear()
        self.has_changed_units |= bool(work.unread)
        self._run_script(script(work))

    def reload(self) -> None:
        """Have systemd reread the units whose new content waits for that, and restart them."""
        self._run_script(f"set -eu\n{RELOADING}reload\n")
        self.has_changed_units = False

    def _run_script(self, text: str) -> None:
        result = self.run(self.wrap(["sh", "-s"]), text.encode(), _DEADLINE)
        if result.exit_code != 0:
            self.cache.command_is_run()
            output = (result.stderr or result.stdout).decode(errors="replace")
            raise DeployError(" ".join(output.split()) or "no output")


class RigopsConnector(BaseConnector):
    """Never connects by itself: reaching a host is a stage, and was done before."""

    handles_execution = True
    channel: HostChannel

    @staticmethod
    def for_host(host: Host) -> RigopsConnector:
        return cast("RigopsConnector", host.connector)

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
        channel = self.channel
        try:
            if not (channel.cache.is_reading or is_reported(self.host)):
                raise DeployError(f"{self._operation_name()}: {FOREIGN}")
            if isinstance(command, FileWorkCommand):
                channel.cache.steps_are_taken(command)
                channel.waiting.append(command)
                if sum(one.size for one in channel.waiting) > _MOST_AT_ONCE:
                    channel.flush()
                return True, CommandOutput([])
            channel.flush()
            return self._run(command, arguments)
        except TransportError as error:
            channel.lost = error
            raise OSError(str(error)) from error

    def _operation_name(self) -> str:
        operation = self.host.current_op_hash
        if operation is None:
            return "a command outside of any operation"
        return ", ".join(sorted(self.state.get_op_meta(operation).names))

    def _run(self, command: StringCommand, arguments: dict[str, Any]) -> tuple[bool, CommandOutput]:
        channel = self.channel
        changes = channel.cache.command_is_run()
        control = extract_control_arguments(arguments)  # type: ignore[arg-type]  # it pops from any dict
        accepted = control.get("_success_exit_codes") or [0]
        line = make_unix_command_for_host(self.state, self.host, command, **arguments)
        argv = shlex.split(line.get_raw_value())
        if isinstance(command, ReportedCommand) and command.progress:
            channel.tell(command.progress)
        run = channel.run_streaming if isinstance(command, StreamingCommand) else channel.run
        result = run(
            channel.wrap(argv) if changes else argv,
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
        raise DeployError(f"{remote_filename}: {FOREIGN}")

    def get_file(self, remote_filename: str, *_: object, **__: object) -> bool:
        raise DeployError(f"{remote_filename}: {FOREIGN}")


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
