"""The lines of a snapshot's texts that rows of known lines are about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rigops.catalog.known_lines import compiled
from rigops.probe.kernel_log import stamps
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nccl_log import SECTION as NCCL_LOG
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.pasted import SECTION as PASTED

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.catalog.known_lines import KnownLine, SoughtLine
    from rigops.probe.section import Section
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
_LONGER_IN_SMALL: Final = "\u0130"
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
_NARROWEST: Final = 60  # columns of a terminal whose lines were wrapped
_LONGEST_WRAPPED: Final = 400  # lines: people wrap what they write, not logs


class Hit(NamedTuple):
    section: str
    found: re.Match[str]
    line: str


class Text:
    """`text`: each of its lines once; `small`: in small letters, as long as that."""

    def __init__(self, section: str, whole: str) -> None:
        self.section, self.whole = section, whole
        self.text = "\n".join(dict.fromkeys(whole.replace(_LONGER_IN_SMALL, "I").split("\n")))
        self.small = self.text.lower()


def texts_of(snapshot: HostSnapshot) -> list[Text]:
    """A paste is searched as it is: its recognized outputs are pieces of it."""
    sections = (PASTED,) if PASTED.name in snapshot.bundle.sections else SOURCES
    answers = ((one.name, snapshot.bundle.sections.get(one.name)) for one in sections)
    return [Text(name, answer.text) for name, answer in answers if answer]


def hits_by_row(texts: Sequence[Text], catalog: Catalog) -> dict[str, tuple[KnownLine, list[Hit]]]:
    """By the name of the row; `unless` is heeded."""
    wrapped = [Text(one.section, _joined(one.whole)) for one in texts if one.section == PASTED.name]
    letters = _letters_in((*texts, *wrapped))
    hits = {}
    for sought in catalog.sought_lines:
        near = [word for word in sought.words if word in letters]
        found = near and (_hits(sought, near, texts) or _hits(sought, near, wrapped))
        if found:
            row = sought.read()
            if not any(is_in(one, texts) for one in row.unless):
                hits[row.name] = (row, found)
    return hits


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
        lines = one.small.encode("ascii", "replace").translate(_LETTERS).split(b"\n")
        found.update(b" ".join(set(lines)).split())
        if not one.small.isascii():
            others.update(_NOT_ASCII.findall(one.small))
    return " ".join((b" ".join(found).decode(), *others))


def _hits(sought: SoughtLine, words: Sequence[str], texts: Iterable[Text]) -> list[Hit]:
    pattern = compiled(sought.pattern)
    lines = ((one.section, line) for one in texts for line in _lines_with(words, one))
    hits = ((section, pattern.search(line), line) for section, line in lines)
    return list(islice((Hit(at, found, line) for at, found, line in hits if found), _MOST_HITS))


def _lines_with(words: Sequence[str], text: Text) -> Iterator[str]:
    """In their order, but for a row of several words."""
    seen: set[int] = set()
    for word in words:
        at = text.small.find(word)
        while at >= 0:
            begin, end = text.small.rfind("\n", 0, at) + 1, text.small.find("\n", at)
            end = len(text.small) if end < 0 else end
            if begin not in seen:
                seen.add(begin)
                yield text.text[begin:end]
            at = text.small.find(word, end)


def is_in(pattern: str, texts: Iterable[Text]) -> bool:
    return any(compiled(pattern).search(one.text) for one in texts)
