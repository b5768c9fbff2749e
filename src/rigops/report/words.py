"""Text for a terminal: wrapped, and without control characters that came from a host."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

K = TypeVar("K")
T = TypeVar("T")

MARGIN: Final = " " * 4


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """By key, in the order of the first of each group."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def plain(text: str) -> str:
    """On one line."""
    return printable(text).strip()


def wrapped(text: str, width: int, indent: str = MARGIN, *, hanging: str = "") -> str:
    return fill(
        printable(text),
        width,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
