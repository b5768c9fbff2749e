"""Walks through a tar archive. Nothing is written anywhere, and nothing is believed.

The members of somebody else's archive may be named to land elsewhere, be links or devices, or grow
without end. tarfile's own reader trusts the lengths that such an archive tells.
"""

from __future__ import annotations

import re
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.errors import Problem, UsageError
from rigops.probe.bundle import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.bundles.unpacked import Unpacked

MOST_MEMBERS: Final = 4096
BLOCK: Final = 512

_MOST_ABOUT: Final = 64 * 1024  # a long name, or the attributes of one member
_FILES: Final = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_ABOUT_NEXT: Final = (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
_OF_NO_USE: Final = (tarfile.GNUTYPE_LONGLINK, tarfile.XGLTYPE)
_PATH: Final = re.compile(rb"(?:^|\n)[0-9]{1,6} path=([^\n]*)")
_OUTWARD: Final = "its name leads out of the archive"
_NO_FILE: Final = "it is neither a file nor a directory"


@dataclass(frozen=True)
class Member:
    """`cut`: the archive ended before this file did."""

    path: tuple[str, ...]
    content: bytes
    cut: bool = False


def begins(block: bytes) -> bool:
    """Whether this is the first block of a tar archive."""
    try:
        tarfile.TarInfo.frombuf(block[:BLOCK], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def members(source: Unpacked, archive: str) -> Iterator[Member]:
    """The files in it. Where the archive was cut short, what came before."""
    seen: set[tuple[str, ...]] = set()
    given: str | None = None
    for _ in range(MOST_MEMBERS):
        head = _head(source)
        if head is None:
            return
        if head.type in (*_ABOUT_NEXT, *_OF_NO_USE):
            about = _about(source, head, archive)
            given = _name_in(about, head) or given if head.type in _ABOUT_NEXT else given
            continue
        name, given = given or head.name, None
        path = _path(name, archive)
        if head.type == tarfile.DIRTYPE:
            continue
        if head.type not in _FILES:
            raise _refused(archive, name, _NO_FILE)
        if head.size > MOST_BYTES:
            raise _refused(archive, name, f"it is longer than {MOST_BYTES >> 20} MiB")
        if path in seen:
            raise _refused(archive, name, "it is there twice")
        seen.add(path)
        content = source.take(head.size)
        yield Member(path, content, cut=len(content) < head.size)
        source.skip(-head.size % BLOCK)
    raise UsageError(
        Problem(message=f"it has more than {MOST_MEMBERS} members", file=archive, cure=_CURE)
    )


_CURE: Final = "Only an archive that `rigops doctor --save` could have made is read."


def _head(source: Unpacked) -> tarfile.TarInfo | None:
    block = source.take(BLOCK)
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        # Empty at the end of the archive; anything else is where it was cut or damaged.
        source.cut = source.cut or block.strip(b"\0") != b"" or not block
        return None


def _about(source: Unpacked, head: tarfile.TarInfo, archive: str) -> bytes:
    if not 0 <= head.size <= _MOST_ABOUT:
        raise _refused(archive, head.name, "what it tells about a member is too long")
    about = source.take(head.size)
    source.skip(-head.size % BLOCK)
    return about


def _name_in(about: bytes, head: tarfile.TarInfo) -> str | None:
    if head.type == tarfile.GNUTYPE_LONGNAME:
        return about.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
    found = _PATH.findall(about)
    return found[-1].decode("utf-8", "surrogateescape") if found else None


def _path(name: str, archive: str) -> tuple[str, ...]:
    parts = tuple(part for part in name.split("/") if part not in {"", "."})
    if name.startswith("/") or ".." in parts or "\\" in name or "\0" in name:
        raise _refused(archive, name, _OUTWARD)
    return parts


def _refused(archive: str, name: str, message: str) -> UsageError:
    return UsageError(
        Problem(
            message=f"member {name!r} is refused: {message}", file=archive, value=name, cure=_CURE
        )
    )
