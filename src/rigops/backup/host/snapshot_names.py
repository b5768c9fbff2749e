"""Names of snapshots, and of the folders that they lie in. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from rigops.backup.utc import parse_stamp, stamp

if TYPE_CHECKING:
    from datetime import datetime

STORE = ".rigops/snapshots"  # below the top level of a file system
KINDS = ("timer", "manual", "apply", "rollback")  # its origin; retention is for the first two

_NAME_SHAPE = re.compile(r"(?P<at>[0-9]{8}T[0-9]{6}Z)-(?P<kind>[a-z]+)")

_ROOT_FOLDER = "@"  # no quoted path is that


class SnapshotName(NamedTuple):
    at: datetime
    kind: str

    def __str__(self) -> str:
        return f"{stamp(self.at)}-{self.kind}"


def parse_snapshot_name(text: str) -> SnapshotName | None:
    """None: not one of rigops."""
    shape = _NAME_SHAPE.fullmatch(text)
    if shape is None or shape["kind"] not in KINDS:
        return None
    try:
        at = parse_stamp(shape["at"])
    except ValueError:
        return None
    return SnapshotName(at, shape["kind"])


def folder_of(path: str) -> str:
    """Of a subvolume, by the path at which it is mounted or lies."""
    return quote(path.strip("/"), safe="") or _ROOT_FOLDER


def path_of(folder: str) -> str:
    return "/" if folder == _ROOT_FOLDER else f"/{unquote(folder)}"


def is_folder_name(text: str) -> bool:
    """No foreign one, whatever its bytes are."""
    if not text.isascii() or text in {".", ".."}:
        return False
    return text == folder_of(path_of(text)) and path_of(text).isprintable()
