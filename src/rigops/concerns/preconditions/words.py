"""Values in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN = 200


def listed(parts: Sequence[str]) -> str:
    if len(parts) < 2:  # noqa: PLR2004 - nothing to join
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def printable(text: str) -> str:
    """Section output, safe to print on one line."""
    plain = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    return plain if len(plain) <= _SHOWN else f"{plain[:_SHOWN]}…"
