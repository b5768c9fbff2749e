"""Damages examples. The same seed makes the same damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

MOST: Final = 64 * 1024  # of an input: growth has its own test
_PIECES: Final = (
    b"\0", b"\xff\xfe", b"\xed\xb3\xbf", b"\r\n", b"\x1b[31m", b"\xe2\x80\xae", b"\xd9\xa5",
    b"\xc2\xb2", b"9" * 5000, b"-1", b"1e999", b"nan", b"0x", b"99999999999999999999",
    b"[" * 3000, b"{" * 3000, b'{"a":' * 2000, b"\\ud800", b"== ", b"\\== ", b"\n== /x\n", b"<",
    b"]]>", b"'", b'"', b"=", b":", b"%", b"/../", b"\xc4\xb0", b"\xe2\x84\xaa", b"null", b"true",
    b"[]",
)  # fmt: skip


def mutated(random: Random, example: bytes, others: Sequence[bytes]) -> bytes:
    data = example
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        data = random.choice(_WAYS)(random, data, others)[:MOST]
    return data


def _flip(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    changed = bytearray(data or b"x")
    for _time in range(random.choice((1, 1, 4, 32))):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _insert(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + random.choice(_PIECES) * random.choice((1, 1, 2, 50)) + data[at:]


def _cut(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = sorted((random.randint(0, len(data)), random.randint(0, len(data))))
    return data[:start] + data[end:] if random.random() < 0.5 else data[start:end]


def _other_number(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    digits = [at for at, byte in enumerate(data) if 0x30 <= byte <= 0x39]
    if not digits:
        return data
    start = end = random.choice(digits)
    while end < len(data) and 0x30 <= data[end] <= 0x39:
        end += 1
    return data[:start] + random.choice(_PIECES) + data[end:]


def _lines(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    at, other = random.randrange(len(lines)), random.randrange(len(lines))
    way = random.randrange(4)
    if way == 0:
        del lines[at]
    elif way == 1:
        lines.insert(other, lines[at])
    elif way == 2:
        lines[at : at + 2] = [b"".join(lines[at : at + 2])]
    else:
        lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)


def _splice(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = random.choice(others)
    at, start = random.randint(0, len(data)), random.randint(0, len(other))
    return data[:at] + other[start : start + random.choice((20, 500, 8000))] + data[at:]


def _recode(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(random.choice(("utf-16", "latin-1", "utf-32", "cp1252")), "replace")


_WAYS: Final[tuple[Callable[[Random, bytes, Sequence[bytes]], bytes], ...]] = (
    _flip, _insert, _insert, _cut, _other_number, _other_number, _lines, _lines, _splice, _recode,
)  # fmt: skip
