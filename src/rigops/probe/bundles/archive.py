"""Reads untrusted files and tar archives: forward only, and within bounds.

gzip and tarfile do the decoding. tarfile reads into memory whatever a header announces, and
follows a chain of headers by recursion: the file object that it reads from bounds both.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from io import BufferedReader
from typing import Final

from rigops.dataclass import dataclass
from rigops.errors import UsageError, usage_error
from rigops.probe.bundle import MOST_BYTES, MOST_MEMBERS

MOST_HEADERS: Final = 3 * 1024 * 1024  # of all members
MOST_HEADERS_OF_ONE: Final = 8 * 1024  # twice the longest path

_PIECE: Final = 256 * 1024
_GZIP: Final = b"\x1f\x8b"
_FIX: Final = "Only archives such as `rigops doctor --save` writes are read."


class TooLongError(Exception):
    """There is more content than the reader may read."""


class BoundedReader:
    """The content of a file, unpacked if it is gzipped.

    `is_incomplete`: it ended too early. `damaged`: its checksum is wrong.
    """

    def __init__(self, file: BufferedReader, *, most: int) -> None:
        self.is_incomplete = False
        self.damaged = False
        self.position = 0
        self._most = most
        self._ended = False
        is_packed = file.peek(len(_GZIP)).startswith(_GZIP)
        self._source = gzip.GzipFile(fileobj=file) if is_packed else file

    def read(self, size: int) -> bytes:
        """Less than `size` only at the end."""
        pieces = []
        while size > 0 and (piece := self._piece(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def pieces(self) -> Iterator[bytes]:
        while piece := self._piece(_PIECE):
            yield piece

    def skip(self, size: int) -> None:
        while size > 0 and (piece := self._piece(size)):
            size -= len(piece)

    def _piece(self, size: int) -> bytes:
        if self._ended:
            return b""
        try:
            piece = self._source.read1(min(size, _PIECE))
        except gzip.BadGzipFile as error:
            self._ended = True
            # Anything may follow the last packed stream: gzip(1) ignores it, too.
            self.damaged = not str(error).startswith("Not a gzipped file")
            return b""
        except (EOFError, zlib.error):
            self._ended = self.is_incomplete = True
            return b""
        self.position += len(piece)
        if self.position > self._most:
            raise TooLongError
        return piece


@dataclass(frozen=True)
class Member:
    """`is_incomplete`: the archive ended before this file did."""

    path: tuple[str, ...]
    content: bytes
    is_incomplete: bool = False


def begins(content: bytes) -> bool:
    """Whether a tar archive begins so."""
    try:
        tarfile.TarInfo.frombuf(content[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def members(reader: BoundedReader, archive: str) -> Iterator[Member]:
    """The files in it. Where the archive was cut short, what came before."""
    seen: set[tuple[str, ...]] = set()
    for number, header in enumerate(_headers(reader, archive)):
        if number == MOST_MEMBERS:
            raise _refused(archive, f"more than {MOST_MEMBERS} members")
        path = _path(header, archive)
        if header.isdir():
            continue
        if not header.isreg() or header.issparse():
            raise _refused_member(archive, header, "neither a file nor a directory")
        if not 0 <= header.size <= MOST_BYTES:
            raise _refused_member(archive, header, f"longer than {MOST_BYTES >> 20} MiB")
        if path in seen:
            raise _refused_member(archive, header, "duplicate name")
        seen.add(path)
        content = reader.read(header.size)
        yield Member(path, content, is_incomplete=len(content) < header.size)


class _HeaderLimitError(Exception):
    """The headers are longer than those of any honest archive."""


class _HeaderFile:
    """Tarfile reads headers from it. It goes only forward: no size below 0 gets so far."""

    def __init__(self, reader: BoundedReader) -> None:
        self.last = b""
        self._reader = reader
        self._left = MOST_HEADERS
        self._left_of_one = 0

    def next_member(self) -> None:
        self._left_of_one = MOST_HEADERS_OF_ONE

    def read(self, size: int) -> bytes:
        self._left -= size
        self._left_of_one -= size
        if min(size, self._left, self._left_of_one) < 0:
            raise _HeaderLimitError
        self.last = self._reader.read(size)
        return self.last

    def tell(self) -> int:
        return self._reader.position

    def seek(self, position: int) -> None:
        self._reader.skip(position - self._reader.position)


def _headers(reader: BoundedReader, archive: str) -> Iterator[tarfile.TarInfo]:
    file = _HeaderFile(reader)
    try:
        file.next_member()
        opened = tarfile.TarFile(fileobj=file, encoding="utf-8", errors="surrogateescape")  # type: ignore[arg-type]  # it reads, seeks and tells, no more
        while header := opened.next():
            yield header
            file.next_member()
    except _HeaderLimitError:
        raise _refused(archive, "the headers of a member are too long") from None
    except (tarfile.TarError, ValueError):
        reader.is_incomplete = True
    # tarfile ends at anything that is no header; only a block of zeros is an archive's end.
    if len(file.last) < tarfile.BLOCKSIZE or file.last.strip(b"\0"):
        reader.is_incomplete = True


def _path(header: tarfile.TarInfo, archive: str) -> tuple[str, ...]:
    name = header.name
    parts = tuple(part for part in name.split("/") if part not in {"", "."})
    if name.startswith("/") or ".." in parts or "\\" in name or "\0" in name:
        raise _refused_member(archive, header, "the name leads out of the archive")
    return parts


def _refused_member(archive: str, header: tarfile.TarInfo, message: str) -> UsageError:
    return _refused(archive, f"member {header.name!r} refused: {message}", header.name)


def _refused(archive: str, message: str, value: str | None = None) -> UsageError:
    return usage_error(message=message, file=archive, value=value, fix=_FIX)
