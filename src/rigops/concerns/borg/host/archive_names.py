"""Names of archives: HOST-20261125T060001Z. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple

from rigops.concerns.snapshots.host.btrfs import HostError
from rigops.concerns.snapshots.host.names import UTC_TIME

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

ARCHIVE_TIME = "%Y%m%dT%H%M%SZ"

_ARCHIVE_SHAPE = re.compile(r"(?P<host>.+)-(?P<at>[0-9]{8}T[0-9]{6}Z)(?P<part>\.checkpoint\S*)?")


class Archive(NamedTuple):
    """`name` ends with .checkpoint where a run was interrupted."""

    at: datetime
    host: str
    name: str
    is_complete: bool


class ArchiveWish(NamedTuple):
    """One archive by its name, or the newest that is not newer than a time, or the newest."""

    name: str = ""
    latest: datetime | None = None


def parse_archive_name(text: str) -> Archive | None:
    """None: somebody else's."""
    shape = _ARCHIVE_SHAPE.fullmatch(text)
    if shape is None:
        return None
    try:
        at = datetime.strptime(shape["at"], ARCHIVE_TIME).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return Archive(at, shape["host"], text, is_complete=not shape["part"])


def archives_of(host: str, names: Iterable[str]) -> list[Archive]:
    """By time; torn ones too."""
    found = (parse_archive_name(name) for name in names)
    return sorted(one for one in found if one and one.host == host)


def free_archive_name(host: str, now: datetime, taken: Collection[str]) -> str:
    at = now
    while f"{host}-{at.strftime(ARCHIVE_TIME)}" in taken:
        at += timedelta(seconds=1)
    return f"{host}-{at.strftime(ARCHIVE_TIME)}"


def parse_archive_wish(text: str) -> ArchiveWish:
    if not text:
        return ArchiveWish()
    if parse_archive_name(text):
        return ArchiveWish(name=text)
    try:
        return ArchiveWish(latest=datetime.strptime(text, UTC_TIME).replace(tzinfo=timezone.utc))
    except ValueError:
        raise HostError(
            f"{text} is neither a time nor an archive",
            "give 2026-11-25T06:00:00Z, or a name from `rigops snapshots`",
        ) from None


def choose_archives(archives: Iterable[Archive], wish: ArchiveWish) -> list[Archive]:
    """Those that a restore may take, the best first."""
    whole = sorted((one for one in archives if one.is_complete), reverse=True)
    if wish.name:
        return [one for one in whole if one.name == wish.name]
    return [one for one in whole if wish.latest is None or one.at <= wish.latest]
