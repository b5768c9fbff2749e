"""Which files a drill restores, and whether they are as their source."""

from __future__ import annotations

import hashlib
import os
import random
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rigops.hostside.shared.beneath import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import IO

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
    """Regular files, through no link; what is compared is what was opened."""
    try:
        with open_regular(one) as first, open_regular(other) as second:
            look = os.fstat(first.fileno())
            are_alike = _look_of(look) == _look_of(os.fstat(second.fileno()))
            return are_alike and _digest(first, look.st_size) == _digest(second, look.st_size)
    except OSError:
        return False


def has_changed_since(path: str, began_ns: int) -> bool:
    """Of a source that is read live, it or a folder above it; a snapshot stays as it is."""
    try:
        with open_regular(path) as file:
            found = [os.fstat(file.fileno()), *(os.lstat(one) for one in Path(path).parents)]
    except OSError:
        return True
    return any(one.st_ctime_ns >= began_ns for one in found)


def _look_of(found: os.stat_result) -> tuple[int, ...]:
    mode = stat.S_IMODE(found.st_mode)
    return (found.st_size, mode, found.st_uid, found.st_gid, found.st_mtime_ns)


def _digest(file: IO[bytes], size: int) -> str:
    """Of so many bytes, and no more, though it grows meanwhile."""
    digest = hashlib.sha256()
    left = size
    while left > 0:
        piece = file.read(min(left, 1 << 20))
        if not piece:
            break
        digest.update(piece)
        left -= len(piece)
    return digest.hexdigest()
