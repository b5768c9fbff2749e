"""Names of archives: HOST-20261125T060001Z, with .partial where a declared path was missing. Pure.

Older versions take a partial one for a foreign one, and leave it alone.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.errors import HostError
from rigops.backup.host.paths import is_inside
from rigops.backup.pruning import is_future
from rigops.backup.utc import parse_stamp, parse_utc, stamp

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


_PARTIAL = ".partial"
_ARCHIVE_SHAPE = re.compile(
    r"(?P<host>.+)-(?P<at>[0-9]{8}T[0-9]{6}Z)"
    r"(?P<partial>\.partial)?(?P<torn>\.checkpoint\S*)?"
)


class Archive(NamedTuple):
    """`is_complete`: no interrupted run left it. `is_partial`: it lacks a declared path."""

    at: datetime
    host: str
    name: str
    is_complete: bool
    is_partial: bool = False

    @property
    def is_whole(self) -> bool:
        return self.is_complete and not self.is_partial


class ArchiveWish(NamedTuple):
    """One archive by its name, or the newest that is not newer than a time, or the newest."""

    name: str = ""
    latest: datetime | None = None


def parse_archive_name(text: str) -> Archive | None:
    """None: a foreign one."""
    shape = _ARCHIVE_SHAPE.fullmatch(text)
    if shape is None:
        return None
    try:
        at = parse_stamp(shape["at"])
    except ValueError:
        return None
    return Archive(at, shape["host"], text, not shape["torn"], bool(shape["partial"]))


def archives_of(host: str, names: Iterable[str]) -> list[Archive]:
    """By time; torn ones too."""
    found = (parse_archive_name(name) for name in names)
    return sorted(one for one in found if one and one.host == host)


def free_archive_name(
    host: str, now: datetime, taken: Collection[str], *, is_partial: bool = False
) -> str:
    at, name = now, f"{host}-{stamp(now)}"
    while name in taken or f"{name}{_PARTIAL}" in taken:
        at += timedelta(seconds=1)
        name = f"{host}-{stamp(at)}"
    return f"{name}{_PARTIAL}" if is_partial else name


def parse_archive_wish(text: str) -> ArchiveWish:
    if not text:
        return ArchiveWish()
    if parse_archive_name(text):
        return ArchiveWish(name=text)
    try:
        return ArchiveWish(latest=parse_utc(text))
    except ValueError:
        raise HostError(
            f"{text} is neither a time nor an archive",
            "give 2026-11-25T06:00:00Z, or a name from `rigops snapshots`",
        ) from None


def choose_archives(
    archives: Iterable[Archive], wish: ArchiveWish, now: datetime, *, whole_first: bool = False
) -> list[Archive]:
    """Those that a restore may take, the best first; from the future, after a wrong clock, last."""
    complete = sorted((one for one in archives if one.is_complete), reverse=True)
    if wish.name:
        return [one for one in complete if one.name == wish.name]
    found = [one for one in complete if wish.latest is None or one.at <= wish.latest]
    return sorted(found, key=lambda one: (is_future(one.at, now), whole_first and one.is_partial))


def may_lack_some(path: str, declared: Collection[str]) -> bool:
    """Whether a partial archive may have the path, and less of it than a whole one.

    Then a declared path is inside of it, or it was read as an empty folder of another one.
    """
    others = [one for one in declared if one != path]
    is_declared = len(others) < len(declared)
    return any(is_inside(one, path) or (is_declared and is_inside(path, one)) for one in others)
