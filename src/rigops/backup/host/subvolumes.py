"""Subvolumes as the kernel has them. No name can pretend to be another one, whatever is in it."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rigops.hostside.shared.beneath import Folder, open_beneath, open_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TOP_ID = 5  # of the subvolume that every btrfs begins with
SUBVOLUME_INODE = 256  # of the first folder of every subvolume

_DEEPEST = 64  # subvolume in subvolume

# Requests to the kernel, and the shapes of their answers, from linux/btrfs.h.
_GET_INFO, _GET_REFERENCES, _GET_NAME, _GET_SYSTEM = 0x81F8943C, 0xD000943D, 0xD000943E, 0x8400941F
_INFO = struct.Struct("=Q256sQQQQ16s16s16sQQQQ" + "QI4x" * 4 + "64x")
_REFERENCE = struct.Struct("=QQ")
_REFERENCES_END = 8 + 255 * _REFERENCE.size
_READ_ONLY = 1  # BTRFS_ROOT_SUBVOL_RDONLY


class Subvolume(NamedTuple):
    """`path`: from the top level, which itself is empty. UUIDs are empty where there is none.

    `is_received`: a receive of it has ended, even if it is written to later. `generation`,
    `made_in`: of the file system, when it was last changed, and when it was made.
    """

    number: int
    above: int
    path: str
    uuid: str
    parent_uuid: str
    received_uuid: str
    is_read_only: bool
    is_received: bool = False
    generation: int = 0
    made_in: int = 0


def subvolume_at(folder: Folder, path: str = "") -> Subvolume | None:
    """None: it is no subvolume, but a folder of one. `path`: from the top level."""
    if os.fstat(folder.number).st_ino != SUBVOLUME_INODE:
        return None
    answer = bytearray(_INFO.size)
    if not _ask(folder, _GET_INFO, answer):
        return None
    number, _, above, _, generation, flags, *rest = _INFO.unpack(answer)
    own, parent, received, _, made_in, _, _, *times = rest
    return Subvolume(
        number=number,
        above=above,
        path=path,
        uuid=_uuid_text(own),
        parent_uuid=_uuid_text(parent),
        received_uuid=_uuid_text(received),
        is_read_only=bool(flags & _READ_ONLY),
        is_received=bool(times[-2]),
        generation=generation,
        made_in=made_in,
    )


def subvolumes_below(folder: Folder, path: str = "", depth: int = 0) -> Iterator[Subvolume]:
    """All that are inside of this one, each after the one that it is in.

    `path`: of the folder, from the top level. A subvolume that cannot be reached by its name is
    left out: it is moved just now, or lies too deep.
    """
    for number, holder in _references(folder):
        with suppress(OSError):
            name = _path_of(folder, number, holder)
            with open_beneath(folder, name) as inside:
                found = subvolume_at(inside, f"{path}/{name}".lstrip("/"))
                if found and found.number == number:
                    yield found
                    if depth < _DEEPEST:
                        yield from subvolumes_below(inside, found.path, depth + 1)


def find_nested(of: Subvolume, every: Iterable[Subvolume]) -> tuple[str, ...]:
    """Writable ones inside, from its top; a snapshot that lies inside is no data of it."""
    start = f"{of.path}/".lstrip("/")
    inside = (one for one in every if one.path != of.path and one.path.startswith(start))
    return tuple(sorted(one.path[len(start) :] for one in inside if not one.is_read_only))


def file_system_uuid(folder: Folder) -> str:
    """Of a btrfs; empty for another one."""
    answer = bytearray(1024)
    return _uuid_text(bytes(answer[16:32])) if _ask(folder, _GET_SYSTEM, answer) else ""


def _references(folder: Folder) -> Iterator[tuple[int, int]]:
    """Subvolumes directly inside, and the folders that they are in, by their numbers."""
    asked = bytearray(4096)
    is_last = False
    while not is_last:
        try:
            fcntl.ioctl(folder.number, _GET_REFERENCES, asked)
            is_last = True
        except OSError as error:
            if error.errno != errno.EOVERFLOW:  # then the next ones are asked for
                raise
        found = asked[8 : 8 + asked[_REFERENCES_END] * _REFERENCE.size]
        yield from list(_REFERENCE.iter_unpack(bytes(found)))


def _path_of(folder: Folder, number: int, holder: int) -> str:
    asked = bytearray(_REFERENCE.pack(holder, number).ljust(4096, b"\0"))
    fcntl.ioctl(folder.number, _GET_NAME, asked)
    name, path = (bytes(part).partition(b"\0")[0] for part in (asked[16:272], asked[272:]))
    return os.fsdecode(path + name)


def _ask(folder: Folder, request: int, answer: bytearray) -> bool:
    """False: it is on another file system."""
    try:
        fcntl.ioctl(folder.number, request, answer)
    except OSError as error:
        if error.errno != errno.ENOTTY:
            raise
        return False
    return True


def _uuid_text(found: bytes) -> str:
    return str(uuid.UUID(bytes=found)) if any(found) else ""


def number_at(path: str) -> int:
    """Of the subvolume at this path; zero where there is none."""
    try:
        with open_folder(path) as folder:
            found = subvolume_at(folder)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return found.number if found else 0
