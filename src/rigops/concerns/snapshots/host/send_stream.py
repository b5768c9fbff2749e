"""Checks an untrusted stream of `btrfs send` on its way to `btrfs receive`. Pure.

Receive opens parents and sources of clones outside of the folder that it is confined to, and
follows `..` there. So of every command each path is looked at, and each source of a clone. Data
pass unread: what is wrong in them, and checksums, are left to receive.
"""

from __future__ import annotations

import struct
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

LONGEST_COMMAND = 512 << 10  # the kernel makes them of up to 144 KiB

_STREAM_MAGIC = b"btrfs-stream\0"
_STREAM_HEADER_LENGTH = 17
_LONGEST_PATH = 4096
_UUID_LENGTH = 16

# Of linux/fs/btrfs/send.h.
_C_SUBVOL, _C_SNAPSHOT, _C_LINK, _C_CLONE, _C_END = 1, 2, 10, 16, 21
# By version of the stream. Not UPDATE_EXTENT, which is sent in place of data.
_COMMANDS = {1: frozenset(range(1, 22)), 2: frozenset({*range(1, 22), 23, 24, 25})}
_LAST_ATTRIBUTE = {1: 24, 2: 31}
_A_UUID, _A_CLONE_UUID, _A_DATA = 1, 20, 19
_A_PATH, _A_PATH_TO, _A_PATH_LINK, _A_CLONE_PATH = 15, 16, 17, 22
_ORDINARY_PATHS = frozenset({_A_PATH, _A_PATH_TO, _A_CLONE_PATH})
_PATHS_OF_LINK = _ORDINARY_PATHS | {_A_PATH_LINK}  # of a symbolic link it is content

_SHORT_DATA = struct.pack("<H", _A_DATA)  # of one byte or none

_command_header = struct.Struct("<IHI").unpack_from  # length, command, checksum
_attribute_header = struct.Struct("<HH").unpack_from


class StreamError(Exception):
    """The fault of the stream."""


class MissingParentError(StreamError):
    """It builds upon a snapshot that is not in this folder."""


class StreamCheck:
    """`name`: of the one snapshot that may be in it. `parents`: the UUIDs it may build upon.

    `is_file`: whether a path in a parent leads to a file without a link; asked of clones.
    `known`: UUIDs that it may not have. Before 5.7, receive looks for those first, in clones of a
    snapshot from itself.
    """

    def __init__(
        self,
        name: str,
        parents: Collection[str],
        is_file: Callable[[str, bytes], bool],
        known: Collection[str] = (),
    ) -> None:
        self.origin = ""  # as its snapshot is called in streams; known after the first command
        self.parent = ""
        self.name = name
        self._parents = parents
        self._is_file = is_file
        self._known = known
        self._version = 0
        self._has_ended = False
        self._source: tuple[str, bytes] | None = None  # of the clone before

    def take(self, stream: bytearray, filled: int) -> int:
        """How many bytes at its beginning are whole commands that may pass."""
        at = 0
        if not self._version:
            if filled < _STREAM_HEADER_LENGTH:
                return 0
            at = self._take_header(stream)
        names, last_attribute = _COMMANDS[self._version], _LAST_ATTRIBUTE[self._version]
        while filled - at >= 10:  # noqa: PLR2004 - the length of a command's header
            length, command, _ = _command_header(stream, at)
            if length > LONGEST_COMMAND or command not in names:
                raise StreamError("has a command that is unknown or too long")
            end = at + 10 + length
            if end > filled:
                break
            if self._has_ended:
                raise StreamError("goes on after its end")
            at += 10
            if command in {_C_SUBVOL, _C_SNAPSHOT, _C_CLONE, _C_END} or not self.origin:
                self._take_special(command, self._attributes(stream, at, end, last_attribute))
            else:
                paths = _PATHS_OF_LINK if command == _C_LINK else _ORDINARY_PATHS
                self._check_paths(stream, at, end, paths, last_attribute)
            at = end
        if self._has_ended and filled > at:
            raise StreamError("goes on after its end")
        return at

    def finish(self) -> None:
        if not self._has_ended:
            raise StreamError("ends early")

    def _take_header(self, stream: bytearray) -> int:
        version = int.from_bytes(stream[len(_STREAM_MAGIC) : _STREAM_HEADER_LENGTH], "little")
        if not stream.startswith(_STREAM_MAGIC) or version not in _COMMANDS:
            raise StreamError("is no stream of btrfs send, or of a version that is unknown")
        self._version = version
        return _STREAM_HEADER_LENGTH

    def _check_paths(
        self, stream: bytearray, at: int, end: int, paths: frozenset[int], last: int
    ) -> None:
        """Each of them: of several receive takes the last one."""
        has_long_data = self._version > 1
        while end - at >= 4:  # noqa: PLR2004 - the length of an attribute's header
            kind, size = _attribute_header(stream, at)
            if kind == _A_DATA and has_long_data:
                return
            at += 4 + size
            if at > end:
                break
            if kind in paths:
                path = stream[at - size : at]
                if size > _LONGEST_PATH or path[:1] == b"/" or b"\0" in path:
                    raise StreamError("has a path that leads elsewhere")
                if b".." in path and b".." in path.split(b"/"):
                    raise StreamError("has a path that leads elsewhere")
            elif not 0 < kind <= last:
                raise StreamError("has an attribute that is unknown")
        if at != end and not (has_long_data and stream[at:end][:2] == _SHORT_DATA):
            raise StreamError("has a command that is cut off")

    def _attributes(self, stream: bytearray, at: int, end: int, last: int) -> dict[int, bytes]:
        self._check_paths(stream, at, end, _ORDINARY_PATHS, last)
        found: dict[int, bytes] = {}
        while end - at >= 4:  # noqa: PLR2004 - the length of an attribute's header
            kind, size = _attribute_header(stream, at)
            if kind in found or kind == _A_DATA:
                raise StreamError("has an attribute that is not expected")
            found[kind] = bytes(stream[at + 4 : at + 4 + size])
            at += 4 + size
        return found

    def _take_special(self, command: int, found: dict[int, bytes]) -> None:
        if command == _C_END and self.origin:
            self._has_ended = True
        elif command == _C_CLONE and self.origin:
            self._take_clone(found)
        elif command in {_C_SUBVOL, _C_SNAPSHOT} and not self.origin:
            if found.get(_A_PATH) != self.name.encode():
                raise StreamError("has a snapshot with another name")
            if command == _C_SNAPSHOT:
                self.parent = _stream_uuid(found, _A_CLONE_UUID)
                if self.parent not in self._parents:
                    raise MissingParentError("builds upon a snapshot that is not here")
            self.origin = _stream_uuid(found, _A_UUID)
            if self.origin in self._known:
                raise StreamError("has a snapshot that is here with another name")
        else:
            raise StreamError("has not one snapshot, at its beginning")

    def _take_clone(self, found: dict[int, bytes]) -> None:
        """One from itself is confined as all that it writes is."""
        source = _stream_uuid(found, _A_CLONE_UUID)
        path = found.get(_A_CLONE_PATH)
        if not path:
            raise StreamError("has a clone of nothing")
        if source == self.origin or self._source == (source, path):
            return
        if source != self.parent or not self._is_file(source, path):
            raise StreamError("has a clone of what is no file of its parent")
        self._source = source, path


def _stream_uuid(found: dict[int, bytes], kind: int) -> str:
    raw = found.get(kind, b"")
    if len(raw) != _UUID_LENGTH or not any(raw):
        raise StreamError("has no UUID where one is needed")
    return str(uuid.UUID(bytes=raw))
