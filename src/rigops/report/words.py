"""Text from hosts without control characters."""

from __future__ import annotations


def printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def plain(text: str) -> str:
    """On one line."""
    return printable(text).strip()
