"""Streams of `btrfs send`: real ones, and what a hostile sender makes of them."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

REAL: Final = Path(__file__).parent / "fixtures/streams"  # FULL, and NEXT, which builds upon it
FULL: Final = "20261127T000000Z-manual"
NEXT: Final = "20261127T010000Z-timer"
MAGIC: Final = b"btrfs-stream\0"

SUBVOL, SNAPSHOT, MKFILE, MKDIR, MKNOD, MKFIFO, MKSOCK, SYMLINK = range(1, 9)
RENAME, LINK, UNLINK, RMDIR, SET_XATTR, REMOVE_XATTR, WRITE, CLONE = range(9, 17)
TRUNCATE, CHMOD, CHOWN, UTIMES, END, UPDATE_EXTENT = range(17, 23)
UUID, TRANSID, INO, SIZE, MODE, UID, GID, RDEV = range(1, 9)
XATTR_NAME, XATTR_DATA, PATH, PATH_TO, PATH_LINK, OFFSET, DATA = range(13, 20)
CLONE_UUID, CLONE_TRANSID, CLONE_PATH, CLONE_OFFSET, CLONE_LENGTH = range(20, 25)

OURS, THEIRS = b"\x11" * 16, b"\x22" * 16

Attribute = tuple[int, bytes]


def _table() -> list[int]:
    found = []
    for one in range(256):
        for _ in range(8):
            one = one >> 1 ^ (0x82F63B78 if one & 1 else 0)  # noqa: PLW2901 - bit by bit
        found.append(one)
    return found


_TABLE: Final = _table()


def checksum(data: bytes) -> int:
    """CRC-32C as btrfs computes it here: it begins with zero."""
    found = 0
    for one in data:
        found = found >> 8 ^ _TABLE[(found ^ one) & 0xFF]
    return found


def number(value: int) -> bytes:
    return struct.pack("<Q", value)


def command(kind: int, *attributes: Attribute) -> bytes:
    body = b"".join(struct.pack("<HH", one, len(value)) + value for one, value in attributes)
    return raw_command(kind, body)


def raw_command(kind: int, body: bytes) -> bytes:
    crc = checksum(struct.pack("<IHI", len(body), kind, 0) + body)
    return struct.pack("<IHI", len(body), kind, crc) + body


def header(version: int = 1) -> bytes:
    return MAGIC + struct.pack("<I", version)


def begin(name: str | bytes = FULL, uuid: bytes = OURS) -> bytes:
    path = name if isinstance(name, bytes) else name.encode()
    return header() + command(SUBVOL, (PATH, path), (UUID, uuid), (TRANSID, number(7)))


def build_upon(parent: bytes, name: str = NEXT, uuid: bytes = OURS) -> bytes:
    return header() + command(
        SNAPSHOT,
        (PATH, name.encode()),
        (UUID, uuid),
        (TRANSID, number(7)),
        (CLONE_UUID, parent),
        (CLONE_TRANSID, number(7)),
    )


def mkfile(path: bytes) -> bytes:
    return command(MKFILE, (PATH, path), (INO, number(300)))


def write(path: bytes, data: bytes = b"evil\n") -> bytes:
    return command(WRITE, (PATH, path), (OFFSET, number(0)), (DATA, data))


def symlink(path: bytes, target: bytes) -> bytes:
    return command(SYMLINK, (PATH, path), (INO, number(301)), (PATH_LINK, target))


def mknod(path: bytes, mode: int, device: int) -> bytes:
    numbers = (INO, number(302)), (MODE, number(mode)), (RDEV, number(device))
    return command(MKNOD, (PATH, path), *numbers)


def clone(path: bytes, source: bytes, source_path: bytes, length: int = 4096) -> bytes:
    return command(
        CLONE,
        (PATH, path),
        (OFFSET, number(0)),
        (CLONE_LENGTH, number(length)),
        (CLONE_UUID, source),
        (CLONE_TRANSID, number(7)),
        (CLONE_PATH, source_path),
        (CLONE_OFFSET, number(0)),
    )


def end() -> bytes:
    return command(END)


def _every_with_a_path(path: bytes) -> Iterator[tuple[str, bytes]]:
    """Each command, and each of its attributes, that may name a path."""
    first = (PATH, path)
    good = (PATH, b"good")
    for kind in (MKFILE, MKDIR, MKFIFO, MKSOCK, UNLINK, RMDIR):
        yield f"command {kind}", command(kind, first, (INO, number(300)))
    yield "mknod", mknod(path, 0o060600, 0)
    yield "symlink", symlink(path, b"x")
    yield "rename", command(RENAME, first, (PATH_TO, b"good"))
    yield "rename to", command(RENAME, good, (PATH_TO, path))
    yield "link", command(LINK, first, (PATH_LINK, b"good"))
    yield "link to", command(LINK, good, (PATH_LINK, path))
    yield "xattr", command(SET_XATTR, first, (XATTR_NAME, b"user.a"), (XATTR_DATA, b"b"))
    yield "no xattr", command(REMOVE_XATTR, first, (XATTR_NAME, b"user.a"))
    yield "write", write(path)
    yield "clone", clone(path, OURS, b"good")
    yield "clone of", clone(b"good", OURS, path)
    yield "truncate", command(TRUNCATE, first, (SIZE, number(0)))
    yield "chmod", command(CHMOD, first, (MODE, number(0o4777)))
    yield "chown", command(CHOWN, first, (UID, number(0)), (GID, number(0)))
    times = [(kind, bytes(12)) for kind in (9, 10, 11)]
    yield "utimes", command(UTIMES, first, *times)
    yield "the last of two", command(WRITE, good, (OFFSET, number(0)), first, (DATA, b"evil"))


def hostile() -> Iterator[tuple[str, bytes]]:
    """Each has to be refused. A copy named FULL whose UUID is THEIRS is at the receiver."""
    for path in (b"../../../evil", b"/evil", b"a/../../../../evil", b"..", b"a/..", b"x\0/../evil"):
        for what, one in _every_with_a_path(path):
            yield f"{what} {path!r}", begin() + mkfile(b"good") + one + end()
    whole = begin() + mkfile(b"a") + write(b"a")
    for name in (
        b"..",
        b".",
        b"",
        b"/x",
        b"a/b",
        b"../x",
        FULL.encode() + b"\n",
        b"other",
        b"\xff",
    ):
        yield f"the name {name!r}", begin(name) + end()
    yield (
        "a name twice",
        header()
        + command(SUBVOL, (PATH, FULL.encode()), (PATH, b".."), (UUID, OURS), (TRANSID, number(7))),
    )
    yield "two subvolumes", whole + begin()[len(header()) :] + end()
    yield "two streams", whole + end() + begin(NEXT) + end()
    yield "more after the end", whole + end() + b"more"
    yield "two ends", whole + end() + end()
    yield "no subvolume", header() + mkfile(b"a") + end()
    yield "nothing", header() + end()
    yield "empty", b""
    yield "cut off", whole
    yield "cut off in a command", (whole + end())[:-3]
    yield "a parent from elsewhere", build_upon(b"\x33" * 16) + end()
    yield "a parent after the beginning", whole + build_upon(THEIRS)[len(header()) :] + end()
    yield "no UUID", header() + command(SUBVOL, (PATH, FULL.encode()), (TRANSID, number(7))) + end()
    yield "an empty UUID", begin(uuid=bytes(16)) + end()
    yield "a clone from elsewhere", whole + clone(b"a", b"\x33" * 16, b"small") + end()
    yield "a clone from no parent", whole + clone(b"a", THEIRS, b"small") + end()
    yield "a clone of nothing", whole + command(CLONE, (PATH, b"a"), (CLONE_UUID, OURS)) + end()
    for length in (513 << 10, 1 << 31, (1 << 32) - 1):
        yield f"{length} bytes", whole + struct.pack("<IHI", length, WRITE, 0)
    yield "a long attribute", whole + raw_command(WRITE, struct.pack("<HH", PATH, 60000) + b"a")
    yield "half an attribute", whole + raw_command(WRITE, b"\x0f\0\x01")
    for kind in (0, UPDATE_EXTENT, 23, 26, 99, 65535):
        yield f"command {kind}", whole + command(kind, (PATH, b"a")) + end()
    for kind in (0, 25, 40, 65535):
        yield f"attribute {kind}", whole + command(CHMOD, (PATH, b"a"), (kind, b"")) + end()
    for version in (0, 3, 1 << 31):
        yield f"version {version}", header(version) + whole[len(header()) :] + end()
    yield "other magic", b"btrfs-strean\0" + (whole + end())[13:]
    yield "no stream", b"x" * 5000
    yield "a long path", whole + mkfile(b"a/" * 3000) + end()


def mutated(seed: str, count: int) -> Iterator[bytes]:
    """Real ones with some bytes changed, cut out, put in or doubled."""
    chance = random.Random(seed)  # noqa: S311 - the same each time
    real = [path.read_bytes() for path in sorted(REAL.glob("*.stream"))]
    for _ in range(count):
        found = bytearray(chance.choice(real))
        for _ in range(chance.randint(1, 8)):
            at = chance.randrange(len(found))
            until = at + chance.randint(1, 40)
            change = chance.randrange(5)
            if change == 0:
                found[at] = chance.randrange(256)
            elif change == 1:
                del found[at:until]
            elif change == 2:
                found[at:at] = found[at:until]
            elif change == 3:
                found[at : at + 3] = chance.choice((b"../", b"/..", b"\0\0\0", b"\xff\xff\xff"))
            else:
                del found[at:]
                break
        yield bytes(found) or b"x"


def commands_of(stream: bytes) -> Iterator[tuple[int, list[Attribute]]]:
    """Another reader than the one that is tested; of whole commands."""
    version = struct.unpack_from("<I", stream, len(MAGIC))[0]
    at = len(MAGIC) + 4
    while at < len(stream):
        length, kind = struct.unpack_from("<IH", stream, at)
        body = stream[at + 10 : at + 10 + length]
        at += 10 + length
        found: list[Attribute] = []
        while body:
            (attribute,) = struct.unpack_from("<H", body)
            if version > 1 and attribute == DATA:
                found.append((attribute, body[2:]))
                break
            (size,) = struct.unpack_from("<H", body, 2)
            found.append((attribute, body[4 : 4 + size]))
            body = body[4 + size :]
        yield kind, found
