"""Which files a drill restores, and whether they are as their source."""

from __future__ import annotations

import hashlib
import os
import random
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.concerns.borg.host.archive_contents import ArchivedFile

_SAMPLE = 40  # files


class Sample(NamedTuple):
    files: tuple[ArchivedFile, ...]

    @property
    def bytes(self) -> int:
        return sum(one.size for one in self.files)


def choose_sample(files: Iterable[ArchivedFile], room: int, seed: str) -> Sample:
    """Of all files alike, however many there are; those that do not fit are left out. Pure."""
    chance = random.Random(seed)  # noqa: S311 - a sample, no secret
    taken: list[ArchivedFile] = []
    for number, one in enumerate(one for one in files if one.size <= room):
        if number < _SAMPLE:
            taken.append(one)
            continue
        place = chance.randrange(number + 1)
        if place < _SAMPLE:
            taken[place] = one
    fitting: list[ArchivedFile] = []
    for one in sorted(taken, key=lambda one: one.size):
        if sum(other.size for other in fitting) + one.size <= room:
            fitting.append(one)
    return Sample(tuple(fitting))


def is_same_file(one: str, other: str) -> bool:
    try:
        first, second = os.lstat(one), os.lstat(other)
        are_alike = _look_of(first) == _look_of(second)
        return are_alike and digest_of(one) == digest_of(other)
    except OSError:
        return False


def has_changed_since(path: str, began_ns: int) -> bool:
    """Of a source that is read live; a snapshot stays as it is."""
    try:
        return os.lstat(path).st_ctime_ns >= began_ns
    except OSError:
        return True


def _look_of(found: os.stat_result) -> tuple[int, ...]:
    mode = stat.S_IMODE(found.st_mode)
    return (found.st_size, mode, found.st_uid, found.st_gid, found.st_mtime_ns)


def digest_of(path: str) -> str:
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()
