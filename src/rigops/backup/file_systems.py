"""On which file system each declared path was at its last backup. Pure.

On another one it is no newer state of the data: it is an empty mount point, or a new disk.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_SYSTEMS_FILE = "/var/lib/rigops/file_systems.json"  # of all engines of a host
FILE_SYSTEMS_SCHEMA = "rigops.file_systems/1"


class FileSystem(NamedTuple):
    """`source`: of its mount, whose name another boot may change. `uuid`: empty without one."""

    kind: str
    source: str
    uuid: str = ""

    def is_same(self, other: FileSystem) -> bool:
        if self.uuid and other.uuid:
            return self.uuid == other.uuid
        return (self.kind, self.source) == (other.kind, other.source)

    def __str__(self) -> str:
        return f"{self.kind} UUID {self.uuid}" if self.uuid else f"{self.kind} {self.source}"


class NotedPath(NamedTuple):
    """`place`: the path behind links."""

    place: str
    file_system: FileSystem


def parse_noted(text: str) -> dict[str, NotedPath] | None:
    """By declared path. None: it cannot be read."""
    try:
        found = json.loads(text)
        if found["schema"] != FILE_SYSTEMS_SCHEMA:
            return None
        return {
            str(path): NotedPath(
                str(one["place"]),
                FileSystem(*(str(one[name]) for name in FileSystem._fields)),
            )
            for path, one in found["paths"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def noted_text(noted: Mapping[str, NotedPath]) -> str:
    paths = {path: {"place": one.place, **one.file_system._asdict()} for path, one in noted.items()}
    document = {"schema": FILE_SYSTEMS_SCHEMA, "paths": paths}
    return f"{json.dumps(document, indent=1, sort_keys=True)}\n"
