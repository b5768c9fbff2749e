"""Texts in which rows of known lines are sought, and the words of the rows."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from string import ascii_lowercase
from typing import Final, NamedTuple

from rigops.catalog import Catalog
from rigops.catalog.known_lines import KnownLine, compiled
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI

MOST_HITS: Final = 200  # of one row
_LETTERS: Final = bytes(
    one if chr(one) in f"{ascii_lowercase}\n" else ord(" ") for one in range(256)
)
_RUN: Final = re.compile(r"[a-z]+")
_MEETING: Final = re.compile(rb"([a-z]{3}) +(?=([a-z]{3}))")  # ends of runs of letters
_TAG: Final = re.compile(r"<[^<>\n]{1,80}>")  # of XML, which says nothing
_BEGINNING: Final = 3


class Hit(NamedTuple):
    section: str
    found: re.Match[str]
    line: str


class _Word(NamedTuple):
    text: str
    rows: list[int]
    run: str
    meetings: frozenset[tuple[bytes, bytes]]


class Text:
    """`text`: each of its lines once; `small`: in small letters and without tags."""

    def __init__(self, section: str, whole: str) -> None:
        self.section, self.whole = section, whole
        self.lines = list(dict.fromkeys(whole.split("\n")))
        self._found: dict[str, list[int]] = {}
        self.text = "\n".join(self.lines)
        small = self.text.lower()
        self.small = _TAG.sub("", small) if section == SMI.name else small
        lengths = (len(one) + 1 for one in self.small.split("\n"))
        self._begins = list(accumulate(lengths, initial=0))

    def lines_with(self, words: Iterable[str]) -> list[str]:
        return [self.lines[at] for at in sorted({at for one in words for at in self._places(one)})]

    def _places(self, word: str) -> list[int]:
        if word not in self._found:
            found = self._found[word] = []
            at = self.small.find(word)
            while at >= 0:
                line = bisect_right(self._begins, at) - 1
                found.append(line)
                at = self.small.find(word, self._begins[line + 1])
        return self._found[word]


def is_in(pattern: str, texts: Iterable[Text]) -> bool:
    return any(compiled(pattern).search(one.text) for one in texts)


def is_meant(row: KnownLine, says: Callable[[str], bool]) -> bool:
    """`says`: whether the texts have this pattern."""
    return all(map(says, row.only)) and not any(map(says, row.unless))


class Words:
    """Words of rows, by what a text that has one of them has too.

    That is where two runs of letters meet, or else how the longest run begins.
    """

    def __init__(self, words_by_row: Iterable[Iterable[str]]) -> None:
        rows: dict[str, list[int]] = defaultdict(list)
        for at, words in enumerate(words_by_row):
            for word in words:
                rows[word].append(at)
        letters = _letters_of("\n".join(rows)).split(b"\n")
        self._words: dict[object, list[_Word]] = defaultdict(list)
        for of_word, (word, places) in zip(letters, rows.items(), strict=True):
            meetings = frozenset(_MEETING.findall(of_word))
            run = "" if meetings else max(_RUN.findall(word), key=len, default="")
            key = min(meetings) if meetings else _beginning(run)
            self._words[key].append(_Word(word, places, run, meetings))

    def in_texts(self, texts: Sequence[Text]) -> dict[int, list[str]]:
        """By the place of their row, those that are there."""
        whole = "\n".join(one.small for one in texts)
        letters, meetings = _letters_in(texts), _meetings_in(texts)
        begins = {letters[at : at + _BEGINNING] for at in range(len(letters))}
        found: dict[int, list[str]] = defaultdict(list)
        for key in self._words.keys() & {*meetings, *begins, ""}:
            for word, places, run, needed in self._words[key]:
                if run in letters and needed <= meetings and word in whole:
                    for at in places:
                        found[at].append(word)
        return found


def _beginning(run: str) -> str:
    return run[:_BEGINNING] if len(run) >= _BEGINNING else ""


@lru_cache(maxsize=4)
def words_of(catalog: Catalog) -> Words:
    return Words(one.words for one in catalog.sought_lines)


def _letters_in(texts: Iterable[Text]) -> str:
    """Each run of letters once, in small letters and without tags."""
    found: set[bytes] = set()
    for one in texts:
        lines = set(_letters_of(one.small).split(b"\n"))
        found.update(b" ".join(lines).split())
    return b" ".join(found).decode()


def _meetings_in(texts: Iterable[Text]) -> set[tuple[bytes, bytes]]:
    """How long runs of letters end that are next to each other in a line, and how they begin."""
    return {pair for one in texts for pair in _MEETING.findall(_letters_of(one.small))}


def _letters_of(small: str) -> bytes:
    return small.encode("ascii", "replace").translate(_LETTERS)
