"""The lines of a snapshot's texts that rows of known lines are about."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cache
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
_LONGER_IN_SMALL: Final = "\u0130"
_TAG: Final = re.compile(r"<[^<>\n]{1,80}>")  # of XML, which says nothing
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
_NARROWEST: Final = 24  # columns of a terminal whose lines were wrapped
_LONGEST_RETYPED: Final = 200_000  # characters: people retype what they write, not logs
_LONGEST_WRAPPED: Final = 400  # lines: people wrap what they write, not logs


class Hit(NamedTuple):
    section: str
    found: re.Match[str]
    line: str


class Text:
    """`text`: each of its lines once; `small`: in small letters, as long as that."""

    def __init__(self, section: str, whole: str) -> None:
        self.section, self.whole = section, whole
        self._lines = list(dict.fromkeys(whole.replace(_LONGER_IN_SMALL, "I").split("\n")))
        self._begins = list(accumulate((len(one) + 1 for one in self._lines), initial=0))
        self._found: dict[str, list[str]] = {}
        self.text = "\n".join(self._lines)
        self.small = self.text.lower()

    def lines_with(self, words: Sequence[str]) -> Iterable[str]:
        """In their order, but for several words."""
        found = [self._lines_with(one) for one in words]
        return found[0] if len(found) == 1 else dict.fromkeys(chain.from_iterable(found))

    def _lines_with(self, word: str) -> list[str]:
        if word not in self._found:
            found = self._found[word] = []
            at = self.small.find(word)
            while at >= 0:
                line = bisect_right(self._begins, at) - 1
                found.append(self._lines[line])
                at = self.small.find(word, self._begins[line + 1])
        return self._found[word]


def texts_of(snapshot: HostSnapshot) -> list[Text]:
    """A paste is searched as it is: its recognized outputs are pieces of it."""
    sections = (PASTED,) if PASTED.name in snapshot.bundle.sections else SOURCES
    answers = ((one.name, snapshot.bundle.sections.get(one.name)) for one in sections)
    return [Text(name, answer.text) for name, answer in answers if answer and answer.text]


def hits_by_row(texts: Sequence[Text], catalog: Catalog) -> dict[str, tuple[KnownLine, list[Hit]]]:
    """By the name of the row; `only` and `unless` are heeded."""
    if not texts:
        return {}
    wrapped = [Text(one.section, _joined(one.whole)) for one in texts if one.section == PASTED.name]
    pasted = [one for one in (*texts, *wrapped) if one.section == PASTED.name]
    retyped = [Retyped(one) for one in pasted if len(one.text) <= _LONGEST_RETYPED]
    near, near_retyped = _Words((*texts, *wrapped)), _Words([one.plain for one in retyped])
    found = {
        sought: _hits(sought, words, texts) or _hits(sought, words, wrapped)
        for sought in catalog.sought_lines
        if (words := near.of(sought.words))
    }
    known = [hit.line for several in found.values() for hit in several]
    every_word = chain.from_iterable(sought.words for sought in catalog.sought_lines)
    in_plain_form = plain_words(tuple(every_word)) if retyped else {}
    hits = {}
    for sought in catalog.sought_lines:
        as_it_is = found.get(sought, [])
        either = [*sought.words, *(in_plain_form.get(one, one) for one in sought.words)]
        near_by = near_retyped.of(dict.fromkeys(either)) if retyped and not as_it_is else []
        all_hits = as_it_is or _hits_retyped(sought, near_by, retyped, known)
        said = [] if as_it_is else retyped
        if all_hits:
            row = sought.read()
            if row.last_resort and not as_it_is:
                continue  # broad words mean something as they were printed only
            if all(_is_said(one, texts, said) for one in row.only) and not any(
                _is_said(one, texts, said) for one in row.unless
            ):
                hits[row.name] = (row, all_hits)
    return hits


def _is_said(pattern: str, texts: Iterable[Text], retyped: Iterable[Retyped]) -> bool:
    return is_in(pattern, texts) or any(of_plain(pattern).search(one.plain.text) for one in retyped)


class Retyped:
    """Lines of a text in plain form, and those that they stand for."""

    def __init__(self, text: Text) -> None:
        said = zip(text.text.split("\n"), plain(text.text).split("\n"), strict=True)
        self.lines = {piece: line for line, whole in said for piece in pieces(whole)}
        self.plain = Text(text.section, "\n".join(self.lines))


class _Words:
    """Which words of rows may be in texts."""

    def __init__(self, texts: Sequence[Text]) -> None:
        self._letters, self._meetings = _letters_in(texts), _meetings_in(texts)

    def of(self, words: Iterable[str]) -> list[str]:
        return [
            one
            for one in words
            if _meetings_of(one) <= self._meetings and _may_be_in(self._letters, one)
        ]


def _hits_retyped(
    sought: SoughtLine, words: Sequence[str], texts: Sequence[Retyped], known: Sequence[str]
) -> list[Hit]:
    """In lines that no row knows as they are."""
    if not words:
        return []
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
    """Each run of letters once, in small letters."""
    found: set[bytes] = set()
    others: set[str] = set()
    for one in texts:
        said = _TAG.sub(" ", one.small) if one.section == SMI.name else one.small
        lines = _letters_of(said).split(b"\n")
        found.update(b" ".join(set(lines)).split())
        if not one.small.isascii():
            others.update(_NOT_ASCII.findall(one.small))
    return " ".join((b" ".join(found).decode(), *others))


def _meetings_in(texts: Iterable[Text]) -> set[tuple[bytes, bytes]]:
    """How long runs of letters end that are next to each other in a line, and how they begin."""
    return {pair for one in texts for pair in _MEETING.findall(_letters_of(one.small))}


@cache  # the words of the catalog
def _meetings_of(word: str) -> frozenset[tuple[bytes, bytes]]:
    return frozenset(_MEETING.findall(_letters_of(word)))


def _letters_of(small: str) -> bytes:
    return small.encode("ascii", "replace").translate(_LETTERS)


def _may_be_in(letters: str, word: str) -> bool:
    return word in letters or (not word.isalpha() and all(run in letters for run in _runs_of(word)))


@cache  # the words of the catalog
def _runs_of(word: str) -> tuple[str, ...]:
    return tuple(_RUN.findall(word))


def _hits(sought: SoughtLine, words: Sequence[str], texts: Iterable[Text]) -> list[Hit]:
    lines = [(one.section, line) for one in texts for line in one.lines_with(words)]
    if not lines:
        return []
    search = compiled(sought.pattern).search
    hits = (Hit(section, found, line) for section, line in lines if (found := search(line)))
    return list(islice(hits, _MOST_HITS))


def is_in(pattern: str, texts: Iterable[Text]) -> bool:
    return any(compiled(pattern).search(one.text) for one in texts)
