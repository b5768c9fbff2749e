"""Lines that say what is wrong, wherever they stand: rows of a table, looked for in whole texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from typing import Annotated, Final, Literal, NamedTuple

from rigops.catalog.model import Form, Reports, Severity
from rigops.dataclass import dataclass

_UNBOUND: Final = re.compile(r"[*+]|\{[0-9]*,\}")
_OTHERS: Final = re.compile(r"\\.|\[\^?\]?[^\]]{0,200}\]")  # where these signs repeat nothing
_WORD: Final = re.compile(r"[a-z]{2,}|[^\x00-\x7f]{2,}|[^\x00-\x1fA-Z\"\\]{3,}")


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


def fault_of(pattern: str) -> str:
    """Why it cannot be searched for in the texts of strangers, or ""."""
    try:
        compiled(pattern)
    except re.error as error:
        return f"is no regular expression: {error}"
    is_unbound = _UNBOUND.search(_OTHERS.sub("x", pattern))
    return "repeats without bound" if is_unbound else ""


def _is_declaration(text: str) -> bool:
    try:
        return not text or isinstance(ast.literal_eval(text), dict)
    except (ValueError, SyntaxError):
        return False


Words = Annotated[
    tuple[str, ...],
    Form(
        lambda words: words and all(map(_WORD.fullmatch, words)),
        "has no words to look for",
        'letters in a row, or more of the line, in small letters: ["libnvidia", "code 43"]',
    ),
]
Declaration = Annotated[
    str, Form(_is_declaration, "is no declaration", '\'{"kernel_args": ["iommu=pt"]}\'')
]


@dataclass(frozen=True)
class Beside:
    """What a line means where another is in the same text; an empty field is that of the row."""

    beside: str
    status: Literal["", "fail", "warn", "info"] = ""
    meaning: str = ""
    why: str = ""
    fix: str = ""


@dataclass(frozen=True)
class KnownLine:
    """A line and its finding. Texts may name groups of the pattern: {address}.

    `words`: runs of letters, ASCII's or others, or with what is between them, in small letters; a
    text without any of them has no such line.
    `only`: it means nothing without a match of each of them; `unless`: with one. `follows`: rows of
    which it is an effect, so that it is left out beside them. `when`: the first context that is
    there counts. `last_resort`: it says nothing of a line that a row without it has.
    """

    name: str
    words: Words
    pattern: str
    finding: str
    status: Severity
    meaning: str
    example: str
    counter: str  # much like it, and not it
    evidence: Reports
    why: str = ""
    fix: str = ""  # by hand
    declares: Declaration = ""  # with which apply mends it
    subject: Literal["gpu", "host"] = "host"
    only: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    when: tuple[Beside, ...] = ()
    last_resort: bool = False

    @property
    def patterns(self) -> tuple[str, ...]:
        return (self.pattern, *self.only, *self.unless, *(one.beside for one in self.when))


class SoughtLine(NamedTuple):
    """What a row is found by; `read` gives all of it."""

    words: tuple[str, ...]
    pattern: str
    last_resort: bool
    read: Callable[[], KnownLine]

    @staticmethod
    def of_entry(row: KnownLine) -> SoughtLine:
        return SoughtLine(row.words, row.pattern, row.last_resort, lambda: row)
