"""The content of a file that may be gzipped, in pieces: never all of it at once."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE: Final = 256 * 1024
_GZIP: Final = b"\x1f\x8b"
_GZIP_ONLY: Final = 16 + zlib.MAX_WBITS


class TooLongError(Exception):
    """It has more content than anybody asked for, as an archive made to harm has."""


class Unpacked:
    """`cut`: it ended too early. `damaged`: a checksum in it is wrong."""

    def __init__(self, file: BinaryIO, *, most: int) -> None:
        self.cut = False
        self.damaged = False
        self.length = 0
        self._most = most
        self._rest = b""
        self._at = 0
        self._source = self._read(file)

    def peek(self, size: int) -> bytes:
        """The beginning of what comes next, which stays there."""
        self._fill(size)
        return self._rest[self._at : self._at + size]

    def take(self, size: int) -> bytes:
        """Less than that only at the end."""
        taken = self.peek(size)
        self._at += len(taken)
        return taken

    def skip(self, size: int) -> None:
        while size > 0 and (piece := self.take(min(size, _PIECE))):
            size -= len(piece)

    def pieces(self) -> Iterator[bytes]:
        piece, self._rest, self._at = self._rest[self._at :], b"", 0
        if piece:
            yield piece
        yield from self._source

    def _fill(self, size: int) -> None:
        length = len(self._rest) - self._at
        if length >= size:
            return
        found = [self._rest[self._at :]]
        for piece in self._source:
            found.append(piece)
            length += len(piece)
            if length >= size:
                break
        self._rest, self._at = b"".join(found), 0

    def _read(self, file: BinaryIO) -> Iterator[bytes]:
        packed = file.read(_PIECE)
        unpack = self._gunzipped if packed.startswith(_GZIP) else _plain
        for piece in unpack(packed, file):
            self.length += len(piece)
            if self.length > self._most:
                raise TooLongError
            yield piece

    def _gunzipped(self, packed: bytes, file: BinaryIO) -> Iterator[bytes]:
        """Also several in one file, as `gzip >> FILE` leaves them."""
        inflate = zlib.decompressobj(_GZIP_ONLY)
        while True:
            try:
                piece = inflate.decompress(packed, _PIECE)
            except zlib.error as error:
                self.cut = True
                self.damaged = "incorrect data check" in str(error)
                return
            if piece:
                yield piece
            packed = inflate.unconsumed_tail
            if inflate.eof:
                packed = inflate.unused_data.lstrip(b"\0")
                packed = packed if len(packed) >= len(_GZIP) else packed + file.read(_PIECE)
                if not packed.startswith(_GZIP):
                    return
                inflate = zlib.decompressobj(_GZIP_ONLY)
            elif not packed and not (packed := file.read(_PIECE)):
                self.cut = True
                return


def _plain(first: bytes, file: BinaryIO) -> Iterator[bytes]:
    piece = first
    while piece:
        yield piece
        piece = file.read(_PIECE)
