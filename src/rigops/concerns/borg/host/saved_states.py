"""What another tool has saved of this machine, whichever tool it is."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from rigops.concerns.borg.host.archive_contents import Found
from rigops.concerns.snapshots.host.btrfs import HostError
from rigops.concerns.snapshots.host.names import UTC_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DIRECTORY = "directory"
FILE = "file"

_LOGIN = re.compile(r"(://)[^/@\s]*@")


class SavedState(NamedTuple):
    """An archive of borgmatic or a snapshot of restic. `paths`: empty where the tool has none."""

    at: datetime
    name: str
    identity: str
    place: str
    paths: tuple[str, ...] = ()


class SavedItem(NamedTuple):
    """`path`: without the leading slash. `kind`: directory, file, or empty for anything else."""

    path: str
    kind: str
    size: int


class SavedStates(ABC):
    """What each tool can do. None of it changes a repository or what is backed up."""

    kind = ""

    @abstractmethod
    def states(self) -> list[SavedState]:
        """Of this machine alone, by time."""

    @abstractmethod
    def repository_of(self, state: SavedState) -> str:
        """A path or an address without a login; empty where it is not known."""

    @abstractmethod
    def items(self, state: SavedState, inside: str = "") -> Iterator[SavedItem]:
        """A path and all below it; empty: all."""

    @abstractmethod
    def extract(self, state: SavedState, paths: Sequence[str], folder: str) -> None:
        """With their whole paths below the folder."""


def without_login(repository: str) -> str:
    return _LOGIN.sub(r"\1", repository)


def is_of_this_machine(hostname: str) -> bool:
    """By the first part: a domain comes and goes."""
    return hostname.partition(".")[0] == os.uname().nodename.partition(".")[0]


def choose_states(states: Iterable[SavedState], at: str) -> list[SavedState]:
    """Those that a restore may take, the newest first. `at`: a name, a time in UTC, or empty."""
    newest_first = sorted(states, reverse=True)
    named = [one for one in newest_first if at and at in {one.name, one.identity}]
    if named or not at:
        return named or newest_first
    try:
        latest = datetime.strptime(at, UTC_TIME).replace(tzinfo=timezone.utc)
    except ValueError:
        raise HostError(
            f"{at} is neither a time nor a backup here",
            "give 2026-11-25T06:00:00Z, or a name from `rigops snapshots -v`",
        ) from None
    return [one for one in newest_first if one.at <= latest]


def find_among(items: Iterable[SavedItem], inside: str) -> Found | None:
    kind, size = "", 0
    for one in items:
        if one.path == inside or (not inside and not kind):
            kind = DIRECTORY if one.kind == DIRECTORY or not inside else FILE
        size += one.size if one.kind == FILE else 0
    return Found(kind, size) if kind else None
