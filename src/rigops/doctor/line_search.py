"""The lines of a snapshot's texts that rows of known lines are about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

from rigops.catalog import Catalog
from rigops.catalog.known_lines import KnownLine, SoughtLine, compiled
from rigops.doctor.searched import MOST_HITS, Hit, Text, is_in, is_meant, words_of
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

_NARROWEST: Final = 24  # columns of a terminal whose lines were wrapped
_LONGEST_RETYPED: Final = 200_000  # characters: people retype what they write, not logs
_LONGEST_WRAPPED: Final = 400  # lines: people wrap what they write, not logs


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
    rows, says = catalog.sought_lines, partial(is_in, texts=texts)
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
            if is_meant(row, says):
                meant[at] = row
                named.update({} if row.last_resort else _and_longer(hits, wrapped))
    known = {one.line for hits in found.values() for one in hits}
    pasted = [one for one in (*texts, *wrapped) if one.section == PASTED.name]
    short = [one for one in pasted if len(one.text) <= _LONGEST_RETYPED]
    if any({*one.lines} - known - {""} for one in short):
        from rigops.doctor.retyped_search import hits_of_retyped  # noqa: PLC0415 - of pastes alone

        for at, row, hits in hits_of_retyped(short, texts, catalog, known, found.keys()):
            found[at], meant[at] = hits, row
    return {row.name: (row, found[at]) for at, row in sorted(meant.items())}


def _and_longer(hits: Sequence[Hit], wrapped: Sequence[Text]) -> Iterator[str]:
    """Their lines, and those that go on."""
    lines = {one.line for one in hits}
    yield from lines
    for line in (line for text in wrapped for line in text.lines):
        if any(one in line for one in lines):
            yield line


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
    return list(islice(hits, MOST_HITS))
