"""The public key by which a host is logged in to, as a line of authorized_keys."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from rigops.transport.clock import Clock
from rigops.transport.key_files import blob_type, read_identity
from rigops.transport.route import Server, resolve

if TYPE_CHECKING:
    from rigops.transport.target import Target

_COMMENT: Final = "rigops"
_AGENT_S: Final = 10.0


def login_key(target: Target) -> str | None:
    """The first that a login would offer; None: it has none."""
    server = resolve(target, Clock(_AGENT_S)).end
    if not server.publickey:
        return None
    in_agent = _agent_keys(server)
    usable = [
        one.blob
        for path in server.identities
        if (one := read_identity(path)) and one.blob and (one.private or one.blob in in_agent)
    ]
    if not server.only_identities:
        usable += in_agent
    return next((_line(blob) for blob in usable), None)


def _agent_keys(server: Server) -> list[bytes]:
    from rigops.transport import import_ssh  # noqa: PLC0415 - heavy

    import_ssh()
    from rigops.transport.login import Agent  # noqa: PLC0415 - as above

    agent = Agent(server.agent_socket, Clock(_AGENT_S))
    try:
        return [key.blob for key in agent.get_keys()]
    finally:
        agent.close()


def _line(blob: bytes) -> str:
    return f"{blob_type(blob)} {base64.b64encode(blob).decode()} {_COMMENT}"
