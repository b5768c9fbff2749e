"""Versions of borg, and what each can. The one place that knows. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from rigops.backup.host.errors import HostError

_BORG_VERSION = re.compile(r"borg\w* (?P<numbers>[0-9]+\.[0-9]+(?:\.[0-9]+)?)\S*")
_OLDEST_BORG, _UNUSABLE_BORG = (1, 2, 0), (2, 0, 0)

# A feature, and the first version that has it. Sources: the change log of borg 1.4.5.
MODERN_EXIT_CODES = (1, 4, 0)  # BORG_EXIT_CODES=modern
ARCHIVE_TAM = (1, 2, 5)  # archives are authenticated; `upgrade --check-archives-tam`


class BorgVersion(NamedTuple):
    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def parse_borg_version(text: str) -> BorgVersion | None:
    """Of `borg --version`, or as `str` writes it."""
    shape = _BORG_VERSION.match(text.strip()) or _BORG_VERSION.match(f"borg {text.strip()}")
    return BorgVersion(*map(int, shape["numbers"].split("."))) if shape else None


def demand_usable(text: str) -> BorgVersion:
    found = parse_borg_version(text)
    if found is None:
        raise HostError(f"borg: the version {text.strip()!r} is unknown", "install borgbackup")
    if found >= _UNUSABLE_BORG:
        raise HostError(
            f"borg {found}: borg 2 is a beta and cannot read repositories of borg 1",
            "remove borgbackup2 and install borgbackup",
        )
    if found < _OLDEST_BORG:
        raise HostError(f"borg {found} is too old: compact needs 1.2", "upgrade borgbackup")
    return found


def needs_tam_check(version: BorgVersion, last: str) -> bool:
    """`last`: what wrote to the repository last; empty where that is unknown."""
    before = parse_borg_version(last) if last else None
    return version >= ARCHIVE_TAM and (before is None or version > before)
