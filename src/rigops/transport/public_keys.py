"""The public keys that log in to a host: of the ssh configuration, the agent and ~/.ssh."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rigops.transport.clock import Clock
from rigops.transport.key_files import blob_type, public_blob, read_identity
from rigops.transport.route import Server, home, resolve
from rigops.transport.target import Target

_MOST_BYTES: Final = 64 * 1024
_AGENT_S: Final = 10.0


def public_keys(target: Target) -> tuple[str, ...]:
    """Lines for authorized_keys. Of keys without a .pub file, what needs no passphrase."""
    found: dict[bytes, str] = {}
    for blob, line in _offered(target):
        found.setdefault(blob, line)
    return tuple(found.values())


def login_key(target: Target) -> str | None:
    """The line of the first that a login would offer; None: it has none."""
    server = resolve(target, Clock(_AGENT_S)).end
    if not server.publickey:
        return None
    in_agent = [blob for blob, _ in _agent_keys(server)]
    usable = [
        one.blob
        for path in server.identities
        if (one := read_identity(path)) and one.blob and (one.private or one.blob in in_agent)
    ]
    if not server.only_identities:
        usable += in_agent
    return next((_line(blob, "rigops") for blob in usable), None)


def read_public_key(path: Path) -> str | None:
    """The line of a .pub file; None where it is none."""
    try:
        with path.open("rb") as file:
            line = file.read(_MOST_BYTES).partition(b"\n")[0].strip()
    except OSError:
        return None
    text = line.decode(errors="replace")
    return text if public_blob(line) and text.isprintable() else None


def _offered(target: Target) -> Iterator[tuple[bytes, str]]:
    if not target.local:
        server = resolve(target, Clock(20)).end
        yield from _of_files(server)
        if server.only_identities:
            return
        for blob, comment in _agent_keys(server):
            if "-cert-" not in (blob_type(blob) or ""):
                yield blob, _line(blob, comment)
    for path in sorted((home() / ".ssh").glob("*.pub")):
        if not path.name.endswith("-cert.pub") and (line := read_public_key(path)):
            yield public_blob(line.encode()) or b"", line


def _of_files(server: Server) -> Iterator[tuple[bytes, str]]:
    for path in server.identities:
        identity = read_identity(path)
        if identity and identity.blob:
            beside = path if path.suffix == ".pub" else path.with_name(f"{path.name}.pub")
            yield identity.blob, read_public_key(beside) or _line(identity.blob, "")


def _agent_keys(server: Server) -> list[tuple[bytes, str]]:
    """Each with its comment."""
    from rigops.transport import import_ssh  # noqa: PLC0415 - paramiko takes as long as a login

    if server.agent_socket is None:
        return []
    import_ssh()
    from rigops.transport.login import Agent  # noqa: PLC0415 - as above

    agent = Agent(server.agent_socket, Clock(_AGENT_S))
    try:
        return [(key.blob, key.comment) for key in agent.get_keys()]
    finally:
        agent.close()


def _line(blob: bytes, comment: str) -> str:
    plain = comment if comment.isprintable() else ""
    return f"{blob_type(blob)} {base64.b64encode(blob).decode()} {plain}".strip()
