"""Finding the word that was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SLIP = 0.8  # as alike as a word is to itself with a letter or two of it wrong


def nearest(word: str, words: Iterable[str], cutoff: float = 0.6) -> str | None:
    found = get_close_matches(word, list(words), n=1, cutoff=cutoff)
    return found[0] if found else None


def near_miss(word: str, words: Iterable[str]) -> str | None:
    """The one of `words` that `word` is a slip of: case, dashes, or a wrong letter or two."""
    others = [one for one in words if one != word]
    return nearest(word.lower().replace("-", "_"), others, _SLIP)


def did_you_mean(word: str, words: Iterable[str]) -> str:
    guess = nearest(word, words)
    return f"did you mean {guess!r}?" if guess else ""
