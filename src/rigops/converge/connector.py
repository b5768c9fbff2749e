"""pyinfra's commands over the one connection that rigops holds to a host."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.util import (
    CommandOutput,
    OutputLine,
    extract_control_arguments,
    make_unix_command_for_host,
)

from rigops.transport import TransportError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import IOBase
    from typing import Any

    from pyinfra.api.command import StringCommand

    from rigops.converge.memo import Memo
    from rigops.transport import Connection

CONNECTION: Final = "rigops_connection"
MEMO: Final = "rigops_memo"

_DEADLINE: Final = 600.0
# Root where the login is root, else sudo: decided on the host, without a question to it first.
_AS_ROOT: Final = (
    "sh",
    "-c",
    'if [ "$(id -u)" = 0 ]; then exec "$@"; else exec sudo -n -- "$@"; fi',
    "rigops",
)


class RigConnector(BaseConnector):
    """Never connects by itself: reaching a host is a stage, and was done before."""

    handles_execution = True

    @staticmethod
    def make_names_data(name: str) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        yield name, {}, []

    @property
    def connection(self) -> Connection:
        connection: Connection = self.host.connector_data[CONNECTION]
        return connection

    def run_shell_command(
        self,
        command: StringCommand,
        print_output: bool = False,  # noqa: ARG002, FBT001, FBT002 - pyinfra's signature
        print_input: bool = False,  # noqa: ARG002, FBT001, FBT002 - pyinfra's signature
        **arguments: Any,
    ) -> tuple[bool, CommandOutput]:
        memo: Memo = self.host.connector_data[MEMO]
        memo.command_is_run()
        control = extract_control_arguments(arguments)  # type: ignore[arg-type]  # it pops from any dict
        accepted = control.get("_success_exit_codes") or [0]
        line = make_unix_command_for_host(self.state, self.host, command, **arguments)
        try:
            result = self.connection.run(
                [*_AS_ROOT, *shlex.split(line.get_raw_value())],
                stdin=_bytes(control.get("_stdin")),
                deadline_s=control.get("_timeout") or _DEADLINE,
            )
        except TransportError as error:
            raise OSError(str(error)) from error
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
