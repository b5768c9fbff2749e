"""A file on a host: as declared, as found, as rigops left it, and what can happen to it.

Digests are SHA-256, in hex.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from rigops.errors import Problem, RigopsError

if TYPE_CHECKING:
    from rigops.probe.sections.rigops_state import Present


@dataclass(frozen=True)
class WantedFile:
    concern: str
    digest: str
    mode: int


@dataclass(frozen=True)
class Previous:
    """Content that was there before rigops wrote; `name` is its file in the folder of such."""

    name: str
    digest: str
    mode: int

    def __post_init__(self) -> None:
        if not self.name.isprintable() or "/" in self.name or self.name in {"", ".", ".."}:
            raise RigopsError(
                Problem(
                    message=f"{self.name!a} is no name for an earlier content",
                    accepted="one name, without folders",
                ),
            )

    def is_in_place(self, found: Present) -> bool:
        return (found.digest, found.mode) == (self.digest, self.mode)


@dataclass(frozen=True, kw_only=True)
class OwnedFile:
    path: str
    concern: str
    digest: str
    mode: int
    previous: Previous | None = None  # None: nothing was there before rigops
    replaces: str = ""  # digest of our own earlier content, there until this one is written

    def __post_init__(self) -> None:
        require_plain_path(self.path)

    def has_ours(self, found: Present) -> bool:
        return found.digest in {self.digest, self.replaces}


def previous_of(path: str, found: Present) -> Previous:
    """Name the copy after path and content, so that a second copy is the same copy."""
    mark = sha256(f"{path}\n{found.digest}".encode()).hexdigest()[:16]
    return Previous(f"{posixpath.basename(path)}.{mark}", found.digest, found.mode)


def require_plain_path(path: str) -> None:
    plain = (
        path.startswith("/")
        and not path.startswith("//")
        and path != "/"
        and path == posixpath.normpath(path)
        and path.isprintable()
        and "\\" not in path
    )
    if not plain:
        raise RigopsError(
            Problem(
                message=f"{path!a} is no path for a file that rigops may own",
                accepted="an absolute path without '..', '.', backslashes or repeated slashes",
            ),
        )


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


@dataclass(frozen=True)
class Write:
    """New, or ours and changed by what is declared."""

    record: OwnedFile
    before: Present | None
    backup: Previous | None  # of somebody else, there now: to be copied aside first


@dataclass(frozen=True)
class Conflict:
    """Ours and still declared, but changed by somebody: show it, copy it aside, overwrite it."""

    record: OwnedFile
    before: Present
    backup: Previous


@dataclass(frozen=True)
class InPlace:
    path: str
    concern: str
    foreign: bool  # satisfied by somebody else's file: not owned, never removed


@dataclass(frozen=True)
class Restore:
    """No longer declared: restore what was there before."""

    owned: OwnedFile
    previous: Previous


@dataclass(frozen=True)
class Remove:
    """No longer declared, and nothing was there before."""

    owned: OwnedFile


@dataclass(frozen=True)
class Show:
    """No longer declared, but changed by somebody: left alone, and shown in the plan."""

    owned: OwnedFile
    found: Present


@dataclass(frozen=True)
class Forget:
    """No longer declared, and nothing of ours is there any more: only the record changes."""

    owned: OwnedFile


Step = Write | Conflict | InPlace | Restore | Remove | Show | Forget
