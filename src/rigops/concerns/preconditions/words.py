"""Values in sentences."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = 200


def listed(parts: Sequence[str]) -> str:
    if len(parts) < 2:  # noqa: PLR2004 - nothing to join
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def shortened(text: str) -> str:
    """Section output, as a part of one line."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
