"""Lines of files with their places: `FILE:NUMBER:TEXT`, as `grep -Hn` prints them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rigops.probe.text import lines

_SHAPE = re.compile(r"(?P<file>/[^:]*):(?P<number>[0-9]{1,7}):(?P<text>.*)")


@dataclass(frozen=True)
class Place:
    file: str
    number: int
    text: str
    line: str  # as grep printed it

    @property
    def is_comment(self) -> bool:
        return self.text.lstrip().startswith(("#", ";"))


def places(body: str) -> tuple[list[Place], list[str]]:
    """Also what could not be read."""
    found: list[Place] = []
    unread: list[str] = []
    for line in lines(body):
        shape = _SHAPE.fullmatch(line)
        if shape:
            found.append(Place(shape["file"], int(shape["number"]), shape["text"].rstrip(), line))
        elif line.strip():
            unread.append(line)
    return found, unread
