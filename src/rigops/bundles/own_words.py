"""The words that mean something to rigops, and may therefore not be replaced wherever they stand.

A host may be called `gpu` and a user `debian`. What a parser or a check looks for stands in their
source, and what a card is called in the catalogue: nothing else can change a verdict.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from rigops import assets

_WORD: Final = re.compile(r"[a-z0-9]+")
_JOINED: Final = re.compile(r"[a-z0-9]+(?:[-.][a-z0-9]+)+")
_NUMBERED: Final = re.compile(r"(?P<letters>[a-z]+)[0-9]{1,3}")
_DIGITS: Final = re.compile(r"[0-9a-f]{1,8}|[0-9]+")
_SHORTEST: Final = 4  # shorter words are device names, units and abbreviations


def may_mean_something(name: str) -> bool:
    """Also gpu0, sda1 and nv4: a pattern may look for a word with a number."""
    word = name.lower()
    if len(word) < _SHORTEST or _DIGITS.fullmatch(word) or word in _ours():
        return True
    numbered = _NUMBERED.fullmatch(word)
    return numbered is not None and (
        len(numbered["letters"]) < _SHORTEST or numbered["letters"] in _ours()
    )


@cache
def _ours() -> frozenset[str]:
    files = [path for ending in ("py", "toml") for path in assets.PACKAGE.rglob(f"*.{ending}")]
    texts = [path.read_text(encoding="utf-8", errors="replace").lower() for path in files]
    return frozenset(
        word for text in texts for shape in (_WORD, _JOINED) for word in shape.findall(text)
    )
