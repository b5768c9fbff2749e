"""Text that redaction never touches, whatever is written around it: PCI addresses and Xids."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_HEX: Final = "[0-9A-Fa-f]"
_ADDRESS: Final = (
    rf"(?<![0-9A-Za-z.])(?<!{_HEX}{_HEX}:)(?:{_HEX}{{4,8}}:{_HEX}{{2}}:{_HEX}{{2}}(?:\.[0-7])?"
    rf"|{_HEX}{{2}}:{_HEX}{{2}}\.[0-7])(?![0-9A-Za-z]|:{_HEX}{{2}})"
)
_EVIDENCE: Final = re.compile(
    rf"NVRM:(?: Xid \((?:PCI:)?[0-9A-Fa-f:.]{{5,16}}[^()\n]{{0,40}}\): *[0-9]{{1,4}}\b)?|{_ADDRESS}"
)
_SEAM: Final = "\n\ue000\n"


def without(text: str) -> str:
    """Each is the end of a line, so that no pattern of a line reaches across."""
    return _EVIDENCE.sub(_SEAM, text)


def replace_between(text: str, replace: Callable[[str], str]) -> str:
    found = [one[0] for one in _EVIDENCE.finditer(text)]
    pieces = replace(without(text)).split(_SEAM)
    if len(pieces) != len(found) + 1:  # the text has that character itself
        return "".join(
            piece if number % 2 else replace(piece)
            for number, piece in enumerate(re.split(f"({_EVIDENCE.pattern})", text))
        )
    return "".join(piece + kept for piece, kept in zip(pieces, [*found, ""], strict=True))
