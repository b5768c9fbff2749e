"""The server of a repository, and what a person does there. Pure."""

from __future__ import annotations

import shlex
from urllib.parse import urlsplit

from rigops.backup.host.server_access import (
    AUTHORIZED_KEYS,
    append_line,
    authorized_key,
)


def split_repository(repository: str) -> tuple[str, str]:
    """The login for ssh and the path on the server: of ssh://user@host:port/path or host:path.

    As borg reads it: /./ begins a path in the login's home, /~/ as well. rigops runs it as root.
    """
    if "://" not in repository:
        login, _, path = repository.partition(":")
    else:
        parts = urlsplit(repository)
        login = parts.netloc.rpartition(":")[0] if parts.port else parts.netloc
        path = parts.path
        if path.startswith(("/./", "/~/")):
            path = path[3:]
    return (login if "@" in login else f"root@{login}"), path


def borg_key_line(repository: str, public_key: str) -> str:
    """With this key, this repository and nothing else."""
    _, path = split_repository(repository)
    command = ("borg", "serve", "--restrict-to-repository", path)
    return authorized_key(command, public_key)


def let_key_in(repository: str, public_key: str) -> str:
    login, _ = split_repository(repository)
    return append_line(login, borg_key_line(repository, public_key))


def let_key_in_instead(repository: str, public_key: str) -> str:
    login, _ = split_repository(repository)
    line = borg_key_line(repository, public_key)
    return f"on {login}, put this line in the place of this key's in {AUTHORIZED_KEYS}: {line}"


def make_folder(repository: str) -> str:
    login, path = split_repository(repository)
    user, _, host = login.partition("@")
    made = shlex.join(("install", "-d", "-o", user, path))
    return f"on {host}, as root: `{made}`, and let {user} into the folders above it"
