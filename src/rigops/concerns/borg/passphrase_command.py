"""Sends the passphrase of a repository to a host, by stdin alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyinfra.api.command import QuoteString, StringCommand

from rigops.concerns.borg.decide import passphrase_written
from rigops.concerns.borg.passphrase import read_passphrase

if TYPE_CHECKING:
    from pyinfra.api.arguments import ConnectorArguments
    from pyinfra.api.host import Host
    from pyinfra.api.state import State
    from pyinfra.connectors.util import CommandOutput

_REPOSITORY_S: Final = 600


class PassphraseCommand(StringCommand):
    """Asks for the passphrase only when it is carried out: no plan runs `command`."""

    def __init__(self, command: str, *, encrypted: bool, program: str = "") -> None:
        """`program`: of the host, where there is a repository that the passphrase has to open."""
        script = passphrase_written(encrypted=encrypted, program=program)
        super().__init__("sh", "-c", QuoteString(script), _timeout=_REPOSITORY_S)
        self._command = command

    def execute(
        self, state: State, host: Host, connector_arguments: ConnectorArguments
    ) -> tuple[bool, CommandOutput]:
        connector_arguments["_stdin"] = f"{read_passphrase(self._command, host.name)}\n"
        done: tuple[bool, CommandOutput] = super().execute(state, host, connector_arguments)
        return done
