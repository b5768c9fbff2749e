"""Exported keys of borg repositories in the vault of this machine, for this user alone to read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from rigops import atomic_file
from rigops.errors import rigops_error
from rigops.vault.store import Store

_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_KEY = re.compile(r"BORG_KEY (?P<id>[0-9a-f]{64})\n[A-Za-z0-9+/=\n]{100,}")
_ID = re.compile(r"[0-9a-f]{64}")
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")
_SHORT: Final = 12


def key_id(exported: str) -> str | None:
    """The id of the repository that an exported key is of; None: it is no such key."""
    found = _KEY.fullmatch(exported.strip())
    return found["id"] if found else None


def key_place(store: Store, host: str, repository: str) -> Path:
    """`repository`: its id."""
    short = repository[:_SHORT] if _ID.fullmatch(repository) else "unknown"
    return store.folder / "borg" / f"{_UNSAFE.sub('_', host)}-{short}.key"


def has_key(store: Store, host: str, repository: str) -> bool:
    try:
        return key_id(key_place(store, host, repository).read_text()) == repository
    except (OSError, UnicodeDecodeError):
        return False


def put_key(store: Store, host: str, exported: str) -> Path:
    """At every moment the old one or the new one; no other key is ever replaced."""
    repository = key_id(exported)
    if repository is None:
        raise rigops_error(
            message="the host's export is not a key of a borg repository",
            host=host,
            fix="see that `borg key export` works there, and run this again",
        )
    place = key_place(store, host, repository)
    try:
        store.made(store.folder)
        place.parent.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        atomic_file.replace(place, f"{exported.strip()}\n", _MODE)
    except OSError as error:
        raise store.unwritable(error) from error
    return place
