"""Files and when they were last written: `EPOCH PATH` lines, as `stat -c '%Y %n'` prints them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rigops.probe.text import lines

_SHAPE = re.compile(r"(?P<modified>[0-9]{1,11}) (?P<path>/.*)")


@dataclass(frozen=True)
class Stamp:
    path: str
    modified: int  # seconds since 1970
    line: str


def stamps(body: str) -> tuple[list[Stamp], list[str]]:
    """Also what could not be read."""
    found: list[Stamp] = []
    unread: list[str] = []
    for line in lines(body):
        shape = _SHAPE.fullmatch(line.rstrip())
        if shape:
            found.append(Stamp(shape["path"], int(shape["modified"]), line))
        elif line.strip():
            unread.append(line)
    return found, unread
