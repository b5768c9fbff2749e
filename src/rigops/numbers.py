"""Whole numbers in foreign text.

Python takes digits of every script for digits, and refuses those of very long numbers.
"""

from __future__ import annotations

from typing import Final

_MOST_DIGITS: Final = 20  # more than 64 bits have


def whole(text: str) -> int | None:
    """None: not only digits, or too many of them."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else None
