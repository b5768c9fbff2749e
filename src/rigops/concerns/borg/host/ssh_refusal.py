"""Why ssh does not come to a server: borg may end before it has read that of its own ssh."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

_PATIENCE_S = 60
_SSH_ENDED_BADLY = 255
_NO_SUCH_COMMAND = 127


def ssh_destination(repository: str) -> list[str]:
    """Words of ssh; none for a repository on this machine."""
    if repository.startswith("ssh://"):
        parts = urlsplit(repository)
        port = ["-p", str(parts.port)] if parts.port else []
        user = f"{parts.username}@" if parts.username else ""
        return [*port, f"{user}{parts.hostname}"]
    server, colon, _ = repository.partition(":")
    return [server] if colon and not server.startswith("/") else []


def ask_ssh(ssh: Sequence[str], repository: str) -> list[str]:
    """Its message where it fails, or where the server has no borg.

    A server that lets this key do `borg serve` alone does that, whatever is asked, and ends well.
    """
    destination = ssh_destination(repository)
    if not destination:
        return []
    try:
        done = subprocess.run(
            [*ssh, *destination, "borg", "--version"],
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode not in {_SSH_ENDED_BADLY, _NO_SUCH_COMMAND}:
        return []
    return done.stderr.decode(errors="replace").splitlines()
