"""What of an archive a restore or a drill takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.concerns.borg.host.borg_process import Borg

_KINDS = {"d": "directory"}


class Found(NamedTuple):
    """`bytes`: of all files below."""

    kind: str
    bytes: int


class ArchivedFile(NamedTuple):
    path: str  # without the leading slash, as archives have it
    size: int


def find_in_archive(borg: Borg, archive: str, inside: str) -> Found | None:
    """Symbolic links are not followed: a path that leads through one is in no archive."""
    kind, size = "", 0
    asked = [f"pp:{inside}"] if inside else []
    for one in borg.lines("list", "--json-lines", f"{borg.repository}::{archive}", *asked):
        path = str(one.get("path"))
        if path == inside or (not inside and not kind):
            kind = _KINDS.get(str(one.get("type")), "file")
        size += int(one.get("size") or 0)
    return Found(kind, size) if kind else None


def files_in_archive(
    borg: Borg, archive: str, *, most_s: float | None = None
) -> Iterator[ArchivedFile]:
    """Plain files that have content of their own; of hard links, the first."""
    for one in borg.lines("list", "--json-lines", f"{borg.repository}::{archive}", most_s=most_s):
        if one.get("type") == "-" and not one.get("source") and one.get("healthy", True):
            yield ArchivedFile(str(one.get("path")), int(one.get("size") or 0))
