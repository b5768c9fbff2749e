"""Everything that can happen to one path when a host is brought in line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rigops.owned.files import OwnedFile, Present, Previous


@dataclass(frozen=True)
class Write:
    """New, or ours and changed by what is declared."""

    record: OwnedFile
    before: Present | None
    keep: Previous | None  # what is there now is somebody's: copy it aside first


@dataclass(frozen=True)
class Conflict:
    """Ours and still wanted, but changed by somebody: show it, copy it aside, overwrite it."""

    record: OwnedFile
    before: Present
    keep: Previous


@dataclass(frozen=True)
class Keep:
    path: str
    concern: str
    foreign: bool  # satisfied by somebody else's file: not owned, never removed


@dataclass(frozen=True)
class Restore:
    """No longer wanted: put back what was there before."""

    owned: OwnedFile
    previous: Previous


@dataclass(frozen=True)
class Remove:
    """No longer wanted, and nothing was there before."""

    owned: OwnedFile


@dataclass(frozen=True)
class Show:
    """No longer wanted, but changed by somebody: left alone, forgotten only with consent."""

    owned: OwnedFile
    found: Present


@dataclass(frozen=True)
class Forget:
    """No longer wanted, and nothing of ours is there any more: only the record changes."""

    owned: OwnedFile


Step = Write | Conflict | Keep | Restore | Remove | Show | Forget
