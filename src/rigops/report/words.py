"""Text for a terminal, in lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from textwrap import wrap
from typing import Final, TypeVar

from rigops.report.terminal import visible

K = TypeVar("K")
T = TypeVar("T")

MARGIN: Final = " " * 4
_PLACE: Final = re.compile(r"^\S{1,300}(?: \(\S{1,300}\)|:[0-9]{1,5}): ")
# A line of authorized_keys, which is copied: in pieces it lets nobody in.
_TO_COPY: Final = 'restrict,command="'


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """By key, in the order of the first of each group."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def without_place(message: str, host: str) -> str:
    """Of an error, where a row or line names the host already."""
    return _PLACE.sub("", message).removeprefix(f"{host}: ")


def clipped(text: str, width: int) -> str:
    """One line, cut between words."""
    line = visible(" ".join(text.split("\n")))
    if len(line) <= width:
        return line
    return f"{line[: width - 1].rpartition(' ')[0]} …"


def wrapped(
    text: str, width: int, indent: str = MARGIN, *, hanging: str = "", most: int | None = None
) -> list[str]:
    """Lines of a text, in which the ends of lines are spaces; `most` of them.

    The hanging indent makes room for a word that would not fit, such as a long path.
    """
    line = visible(" ".join(text.split("\n")))
    before, begins, rest = line.partition(_TO_COPY)
    if begins and most is None:
        return [*wrapped(before, width, indent, hanging=hanging), f"{begins}{rest}"]
    longest = max(map(len, line.split()), default=0)
    return wrap(
        line,
        width,
        initial_indent=indent,
        subsequent_indent=(indent + hanging)[: max(0, width - longest)],
        break_long_words=False,
        break_on_hyphens=False,
        max_lines=most,
        placeholder=" …",
    )


def error_lines(text: str, fix: str | None, width: int, indent: str = "") -> list[str]:
    lines = wrapped(f"Error: {text}", width, indent, hanging=MARGIN)
    return [*lines, *(wrapped(f"fix: {fix}", width) if fix else ())]


def minutes(seconds: float) -> str:
    """As on a clock: 0:34."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
