"""How stages run a command on the host as root."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rigops.transport import Connection, Privilege, Result

# Words of the command, and seconds.
RunAsRoot = Callable[[Sequence[str], float], Result]


def as_root(connection: Connection, privilege: Privilege) -> RunAsRoot:
    return lambda words, seconds: connection.run(words, privilege=privilege, deadline_s=seconds)
