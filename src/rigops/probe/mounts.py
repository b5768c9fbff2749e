"""Mounted file systems and planned ones: /proc/self/mounts and fstab."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol, TypeVar

from rigops.dataclass import dataclass
from rigops.probe.text import lines, matches

_MOUNTED = re.compile(r"(?P<source>\S+) (?P<target>/\S*) (?P<type>\S+) (?P<options>\S+)(?: 0 0)?")
_PLANNED = re.compile(
    r"\s*(?P<source>[^#\s]\S*)\s+(?P<target>\S+)\s+(?P<type>\S+)\s+(?P<options>\S+)(?:\s.*)?"
)
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    source: str
    target: str
    type: str
    options: tuple[str, ...]
    line: str


Mounts = tuple[Mount, ...]


class _Mounted(Protocol):
    @property
    def target(self) -> str: ...


AnyMount = TypeVar("AnyMount", bound=_Mounted)


def is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def mount_over(path: str, mounts: Sequence[AnyMount]) -> AnyMount | None:
    """The innermost one; of several at one point the last hides the others."""
    above = [one for one in mounts if is_within(path, one.target)]
    return max(reversed(above), key=lambda one: len(one.target), default=None)


def mounted(body: str) -> tuple[Mounts, list[str]]:
    """As the kernel lists them; also what could not be read."""
    return _read(lines(body), _MOUNTED)


def planned(body: str) -> tuple[Mounts, list[str]]:
    return _read([line for line in lines(body) if not line.lstrip().startswith("#")], _PLANNED)


def _read(output: list[str], shape: re.Pattern[str]) -> tuple[Mounts, list[str]]:
    found, unparsed = matches(shape, map(str.strip, output))
    return tuple(
        Mount(
            source=unescaped(one["source"]),
            target=unescaped(one["target"]),
            type=one["type"],
            options=tuple(one["options"].split(",")),
            line=one.string,
        )
        for one in found
    ), unparsed


def unescaped(name: str) -> str:
    r"""A blank in a name is \040."""
    return _ESCAPED.sub(lambda one: chr(int(one[1], 8)), name)
