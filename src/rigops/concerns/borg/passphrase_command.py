"""Asks for the passphrase of a repository, and sends it to a host, by stdin alone."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State
from pyinfra.connectors.util import CommandOutput

from rigops.concerns.borg.decide import passphrase_written
from rigops.concerns.borg.passphrase import read_passphrase
from rigops.dataclass import dataclass
from rigops.plan.context import provide, provided

_REPOSITORY_S: Final = 600


@dataclass(frozen=True)
class _Asked:
    passphrase: str = field(repr=False)


class AskPassphraseCommand(StringCommand):
    """Runs `command` on this machine, and only when it is carried out: no plan does."""

    def __init__(self, command: str) -> None:
        super().__init__("true")
        self._command = command

    def execute(
        self,
        state: State,  # noqa: ARG002 - pyinfra's signature
        host: Host,
        connector_arguments: ConnectorArguments,  # noqa: ARG002 - pyinfra's signature
    ) -> tuple[bool, CommandOutput]:
        provide(host, _Asked(read_passphrase(self._command, host.name)))
        return True, CommandOutput([])


class StorePassphraseCommand(StringCommand):
    """Comes after an `AskPassphraseCommand` for the same host."""

    def __init__(self, *, encrypted: bool, program: str = "") -> None:
        """`program`: of the host, where there is a repository that the passphrase has to open."""
        script = passphrase_written(encrypted=encrypted, program=program)
        super().__init__("sh", "-c", QuoteString(script), _timeout=_REPOSITORY_S)

    def execute(
        self, state: State, host: Host, connector_arguments: ConnectorArguments
    ) -> tuple[bool, CommandOutput]:
        asked = provided(host, _Asked)
        assert asked is not None  # noqa: S101 - see the class
        connector_arguments["_stdin"] = f"{asked.passphrase}\n"
        done: tuple[bool, CommandOutput] = super().execute(state, host, connector_arguments)
        return done
