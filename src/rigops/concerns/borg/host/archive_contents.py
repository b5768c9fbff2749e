"""The part of an archive for a restore or a drill."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.state_file import replace_file
from rigops.concerns.borg.host.borg_process import BORG_FILES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rigops.concerns.borg.host.borg_process import Borg

_ENTRY_KINDS = {"d": "directory"}
_WANTED = f"{BORG_FILES}/wanted"


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
            kind = _ENTRY_KINDS.get(str(one.get("type")), "file")
        size += int(one.get("size") or 0)
    return Found(kind, size) if kind else None


def only(files: Iterable[ArchivedFile]) -> list[str]:
    """Words by which borg takes these alone. Names are private, and every user can read words."""
    Path(BORG_FILES).mkdir(mode=0o700, parents=True, exist_ok=True)
    wanted = "".join(f"+ pf:{one.path}\n" for one in files)
    replace_file(Path(_WANTED), f"{wanted}- fm:*\n")
    return ["--patterns-from", _WANTED]


def files_in_archive(
    borg: Borg, archive: str, *, most_s: float | None = None
) -> Iterator[ArchivedFile]:
    """Plain files that have content of their own, and a plain name; of hard links, the first."""
    for one in borg.lines("list", "--json-lines", f"{borg.repository}::{archive}", most_s=most_s):
        if one.get("type") == "-" and not one.get("source") and one.get("healthy", True):
            path = str(one.get("path"))
            if path.isprintable() and path == path.strip():
                yield ArchivedFile(path, int(one.get("size") or 0))
