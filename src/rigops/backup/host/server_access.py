"""The steps on a server that let a key of this host in."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVER_PROGRAM = "/usr/local/libexec/rigops-snapshots"  # not in a folder that a release ends
AUTHORIZED_KEYS = "~/.ssh/authorized_keys"


def authorized_key(command: Sequence[str], public_key: str) -> str:
    """The line of authorized_keys: with this key, this command and nothing else."""
    escaped = shlex.join(command).replace("\\", "\\\\").replace('"', '\\"')
    return f'restrict,command="{escaped}" {public_key.strip()}'


def snapshots_key_line(path: str, public_key: str) -> str:
    """With this key, snapshots go into this folder of the server."""
    return authorized_key((SERVER_PROGRAM, "serve", path), public_key)


def append_line(login: str, line: str) -> str:
    """The line comes last, so that it is shown whole."""
    return f"on {login}, append this line to {AUTHORIZED_KEYS}: {line}"


def read_public_key(private_key: str) -> str:
    """Empty where there is none."""
    try:
        return Path(f"{private_key}.pub").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
