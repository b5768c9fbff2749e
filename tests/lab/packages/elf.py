"""A kernel module that says what it is: an ELF object with a real .modinfo, and no code."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Filled in on the host, for each kernel, by whoever plays the compiler there.
WIDTH = 96
PLACEHOLDER = "@" * WIDTH

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_RELOCATABLE, _X86_64 = 1, 62
_PROGBITS, _STRTAB, _ALLOC = 1, 3, 2


def module(about: Iterable[tuple[str, str]]) -> bytes:
    """A module for a kernel that is still to be named."""
    strings = [f"{key}={value}" for key, value in (*about, ("vermagic", PLACEHOLDER))]
    return _object(b".modinfo", b"".join(text.encode() + b"\0" for text in strings))


def filled(unfilled: bytes, kernel: str) -> bytes:
    vermagic = f"{kernel} SMP preempt mod_unload modversions ".encode()
    return unfilled.replace(PLACEHOLDER.encode(), vermagic.ljust(WIDTH, b"\0"))


def _object(name: bytes, content: bytes) -> bytes:
    names = b"\0" + name + b"\0.shstrtab\0"
    body = content + names
    body += b"\0" * (-len(body) % 8)
    header = _HEADER.pack(
        b"\x7fELF\x02\x01\x01", _RELOCATABLE, _X86_64, 1, 0, 0, _HEADER.size + len(body), 0,
        _HEADER.size, 0, 0, _SECTION.size, 3, 2,
    )  # fmt: skip
    at = _HEADER.size
    sections = (
        _SECTION.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        _SECTION.pack(1, _PROGBITS, _ALLOC, 0, at, len(content), 0, 0, 1, 0),
        _SECTION.pack(
            2 + len(name), _STRTAB, 0, 0, at + len(content), len(names), 0, 0, 1, 0
        ),
    )  # fmt: skip
    return header + body + b"".join(sections)
