"""Text for a terminal: wrapped, and without control characters that came from a host."""

from __future__ import annotations

from textwrap import fill
from typing import Final

MARGIN: Final = " " * 4


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
