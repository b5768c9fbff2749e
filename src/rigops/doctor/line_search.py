"""The lines of a snapshot's texts that rows of known lines are about."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import accumulate, chain, islice, pairwise
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rigops.catalog import Catalog
from rigops.catalog.known_lines import KnownLine, SoughtLine, compiled
from rigops.doctor.retyped import of_plain, pieces, plain, plain_words
from rigops.probe.kernel_log import stamps
from rigops.probe.section import Section
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nccl_log import SECTION as NCCL_LOG
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.pasted import SECTION as PASTED

if TYPE_CHECKING:
    from rigops.probe.snapshot import HostSnapshot

SOURCES: Final[tuple[Section[Any], ...]] = (
    KERNEL_LOG,
    KERNEL_LOG_PREVIOUS,
    SMI,
    NCCL_LOG,
)

_MOST_HITS: Final = 200  # of one row
_LETTERS: Final = bytes(
    one if chr(one) in f"{ascii_lowercase}\n" else ord(" ") for one in range(256)
)
_RUN: Final = re.compile(r"[a-z]+")
_MEETING: Final = re.compile(rb"([a-z]{3}) +(?=([a-z]{3}))")  # ends of runs of letters
_TAG: Final = re.compile(r"<[^<>\n]{1,80}>")  # of XML, which says nothing
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
_BEGINNING: Final = 3
_NARROWEST: Final = 24  # columns of a terminal whose lines were wrapped
_LONGEST_RETYPED: Final = 200_000  # characters: people retype what they write, not logs
_LONGEST_WRAPPED: Final = 400  # lines: people wrap what they write, not logs


class Hit(NamedTuple):
    section: str
    found: re.Match[str]
    line: str


class _Word(NamedTuple):
    text: str
    rows: list[int]
    runs: list[str]
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


def texts_of(snapshot: HostSnapshot) -> list[Text]:
    """A paste is searched as it is: its recognized outputs are pieces of it."""
    sections = (PASTED,) if PASTED.name in snapshot.bundle.sections else SOURCES
    answers = ((one.name, snapshot.bundle.sections.get(one.name)) for one in sections)
    return [Text(name, answer.text) for name, answer in answers if answer and answer.text]


def hits_by_row(texts: Sequence[Text], catalog: Catalog) -> dict[str, tuple[KnownLine, list[Hit]]]:
    """By the name of the row; `only` and `unless` are heeded.

    Rows of last resort come after the others, whose lines they leave alone.
    """
    if not texts:
        return {}
    rows = catalog.sought_lines
    wrapped = [Text(one.section, _joined(one.whole)) for one in texts if one.section == PASTED.name]
    near = words_of(catalog).in_texts((*texts, *wrapped))
    found: dict[int, list[Hit]] = {}
    meant: dict[int, KnownLine] = {}
    named: set[str] = set()
    for at in sorted(near, key=lambda at: (rows[at].last_resort, at)):
        sought = rows[at]
        others = named if sought.last_resort else frozenset[str]()
        hits = _hits(sought, near[at], texts, others) or _hits(sought, near[at], wrapped, others)
        if hits:
            found[at] = hits
            row = sought.read()
            if _is_meant(row, texts, ()):
                meant[at] = row
                named.update({} if row.last_resort else _and_longer(hits, wrapped))
    known = {one.line for hits in found.values() for one in hits}
    pasted = [one for one in (*texts, *wrapped) if one.section == PASTED.name]
    retyped = [Retyped(one) for one in pasted if len(one.text) <= _LONGEST_RETYPED]
    if any({*one.lines.values()} - known - {""} for one in retyped):
        plains = [one.plain for one in retyped]
        near = words_of(catalog).in_texts(plains)
        near_retyped = _retyped_words_of(catalog).in_texts(plains)
        # Broad words mean something as they were printed only.
        for at in (near.keys() | near_retyped.keys()) - found.keys():
            words = [*near[at], *near_retyped[at]]
            hits = [] if rows[at].last_resort else _hits_retyped(rows[at], words, retyped, known)
            if hits and _is_meant(row := rows[at].read(), texts, retyped):
                found[at], meant[at] = hits, row
    return {row.name: (row, found[at]) for at, row in sorted(meant.items())}


def _and_longer(hits: Sequence[Hit], wrapped: Sequence[Text]) -> Iterator[str]:
    """Their lines, and those that go on."""
    lines = {one.line for one in hits}
    yield from lines
    for line in (line for text in wrapped for line in text.lines):
        if any(one in line for one in lines):
            yield line


def _is_meant(row: KnownLine, texts: Sequence[Text], retyped: Sequence[Retyped]) -> bool:
    return all(_is_said(one, texts, retyped) for one in row.only) and not any(
        _is_said(one, texts, retyped) for one in row.unless
    )


def _is_said(pattern: str, texts: Iterable[Text], retyped: Iterable[Retyped]) -> bool:
    return is_in(pattern, texts) or any(of_plain(pattern).search(one.plain.text) for one in retyped)


class Retyped:
    """Lines of a text in plain form, and those that they stand for."""

    def __init__(self, text: Text) -> None:
        said = zip(text.lines, plain(text.text).split("\n"), strict=True)
        self.lines = {piece: line for line, whole in said for piece in pieces(whole)}
        self.plain = Text(text.section, "\n".join(self.lines))


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
            runs = [] if meetings else _runs_of(word)
            key = min(meetings) if meetings else _beginning(runs[0])
            self._words[key].append(_Word(word, places, runs, meetings))

    def in_texts(self, texts: Sequence[Text]) -> dict[int, list[str]]:
        """By the place of their row, those that may be there."""
        letters, meetings = _letters_in(texts), _meetings_in(texts)
        begins = {letters[at : at + _BEGINNING] for at in range(len(letters))}
        found: dict[int, list[str]] = defaultdict(list)
        for key in self._words.keys() & {*meetings, *begins, ""}:
            for word, places, runs, needed in self._words[key]:
                if needed <= meetings and all(run in letters for run in runs):
                    for at in places:
                        found[at].append(word)
        return found


def _beginning(run: str) -> str:
    return run[:_BEGINNING] if len(run) >= _BEGINNING else ""


@lru_cache(maxsize=4)
def words_of(catalog: Catalog) -> Words:
    return Words(one.words for one in catalog.sought_lines)


@lru_cache(maxsize=4)
def _retyped_words_of(catalog: Catalog) -> Words:
    """Those that are others in plain form."""
    rows = [() if one.last_resort else one.words for one in catalog.sought_lines]
    in_plain_form = plain_words([*dict.fromkeys(chain.from_iterable(rows))])
    return Words({in_plain_form[one] for one in words} - {*words} for words in rows)


def _hits_retyped(
    sought: SoughtLine, words: Sequence[str], texts: Sequence[Retyped], known: AbstractSet[str]
) -> list[Hit]:
    """In lines that no row knows as they are."""
    lines = [(one, line) for one in texts for line in one.plain.lines_with(words)]
    if not lines:
        return []
    search = of_plain(sought.pattern).search
    hits = (
        Hit(text.plain.section, found, text.lines[line])
        for text, line in lines
        if (found := search(line))
        and not any(one in text.lines[line] or text.lines[line] in one for one in known)
    )
    return list(islice(hits, _MOST_HITS))


def _joined(text: str) -> str:
    """Lines that may go on in the next one, with it."""
    lines = text.split("\n")
    if len(lines) > _LONGEST_WRAPPED:
        return ""
    return "".join(
        f"{line} {after.lstrip()}\n{line}{after}\n"
        for line, after in pairwise(lines)
        if len(line) >= _NARROWEST and after.strip() and stamps.read(after).form is None
    )


def _letters_in(texts: Iterable[Text]) -> str:
    """Each run of letters once, in small letters and without tags."""
    found: set[bytes] = set()
    others: set[str] = set()
    for one in texts:
        lines = _letters_of(one.small).split(b"\n")
        found.update(b" ".join(set(lines)).split())
        if not one.small.isascii():
            others.update(_NOT_ASCII.findall(one.small))
    return " ".join((b" ".join(found).decode(), *others))


def _meetings_in(texts: Iterable[Text]) -> set[tuple[bytes, bytes]]:
    """How long runs of letters end that are next to each other in a line, and how they begin."""
    return {pair for one in texts for pair in _MEETING.findall(_letters_of(one.small))}


def _letters_of(small: str) -> bytes:
    return small.encode("ascii", "replace").translate(_LETTERS)


def _runs_of(word: str) -> list[str]:
    """The longest first; there is one at least."""
    runs = [word] if word.isalpha() else sorted(_RUN.findall(word), key=len, reverse=True)
    return runs or [""]


def _hits(
    sought: SoughtLine, words: Sequence[str], texts: Iterable[Text], others: AbstractSet[str]
) -> list[Hit]:
    """`others`: lines of other rows."""
    lines = [
        (one.section, line) for one in texts for line in one.lines_with(words) if line not in others
    ]
    if not lines:
        return []
    search = compiled(sought.pattern).search
    hits = (Hit(section, found, line) for section, line in lines if (found := search(line)))
    return list(islice(hits, _MOST_HITS))


def is_in(pattern: str, texts: Iterable[Text]) -> bool:
    return any(compiled(pattern).search(one.text) for one in texts)
