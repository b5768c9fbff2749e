"""Lines of a paste that rows of known lines are about, and that somebody retyped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice

from rigops.catalog import Catalog
from rigops.catalog.known_lines import KnownLine, SoughtLine
from rigops.doctor.retyped import of_plain, pieces, plain, plain_words
from rigops.doctor.searched import MOST_HITS, Hit, Text, Words, is_in, is_meant, words_of


def hits_of_retyped(
    pasted: Sequence[Text],
    texts: Sequence[Text],
    catalog: Catalog,
    known: Collection[str],
    others: Collection[int],
) -> Iterator[tuple[int, KnownLine, list[Hit]]]:
    """With the place of the row, which is none of `others`, in lines that are not `known`."""
    rows, retyped = catalog.sought_lines, [_Retyped(one) for one in pasted]

    def says(pattern: str) -> bool:
        return is_in(pattern, texts) or any(
            of_plain(pattern).search(one.plain.text) for one in retyped
        )

    plains = [one.plain for one in retyped]
    near = words_of(catalog).in_texts(plains)
    near_retyped = _retyped_words_of(catalog).in_texts(plains)
    # Broad words mean something as they were printed only.
    for at in (near.keys() | near_retyped.keys()) - {*others}:
        words = [*near[at], *near_retyped[at]]
        hits = [] if rows[at].last_resort else _hits(rows[at], words, retyped, known)
        if hits and is_meant(row := rows[at].read(), says):
            yield at, row, hits


class _Retyped:
    """Lines of a text in plain form, and those that they stand for."""

    def __init__(self, text: Text) -> None:
        said = zip(text.lines, plain(text.text).split("\n"), strict=True)
        self.lines = {piece: line for line, whole in said for piece in pieces(whole)}
        self.plain = Text(text.section, "\n".join(self.lines))


@lru_cache(maxsize=4)
def _retyped_words_of(catalog: Catalog) -> Words:
    """Those that are others in plain form."""
    rows = [() if one.last_resort else one.words for one in catalog.sought_lines]
    in_plain_form = plain_words([*dict.fromkeys(chain.from_iterable(rows))])
    return Words({in_plain_form[one] for one in words} - {*words} for words in rows)


def _hits(
    sought: SoughtLine, words: Sequence[str], texts: Sequence[_Retyped], known: Collection[str]
) -> list[Hit]:
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
    return list(islice(hits, MOST_HITS))
