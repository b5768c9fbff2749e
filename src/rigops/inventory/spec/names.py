"""Finding the word that was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SHORT = 5


def nearest(word: str, words: Iterable[str], cutoff: float = 0.6) -> str | None:
    found = get_close_matches(word, list(words), n=1, cutoff=cutoff)
    return found[0] if found else None


def near_miss(word: str, words: Iterable[str]) -> str | None:
    """The one of `words` that `word` is a slip of: case, dashes, or one or two wrong letters."""
    plain = word.lower().replace("-", "_")
    for candidate in words:
        slips = 1 if len(candidate) <= _SHORT else 2
        if word != candidate and _slips(plain, candidate, slips):
            return candidate
    return None


def did_you_mean(word: str, words: Iterable[str]) -> str:
    guess = nearest(word, words)
    return f"did you mean {guess!r}?" if guess else ""


def _slips(word: str, meant: str, most: int) -> bool:
    """Whether at most `most` insertions, deletions, changes or swaps turn one into the other."""
    if abs(len(word) - len(meant)) > most:
        return False
    before: list[int] = []
    row = list(range(len(meant) + 1))
    for i, letter in enumerate(word, 1):
        above, before, row = before, row, [i]
        for j, other in enumerate(meant, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            swapped = i > 1 and j > 1 and letter == meant[j - 2] and word[i - 2] == other
            row.append(min(cost, above[j - 2] + 1) if swapped else cost)
    return row[-1] <= most
