"""Text for a terminal, in lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from textwrap import wrap
from typing import Final, TypeVar

from rigops.report.terminal import visible

K = TypeVar("K")
T = TypeVar("T")

MARGIN: Final = " " * 4


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """By key, in the order of the first of each group."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def clipped(text: str, width: int) -> str:
    """One line, cut between words."""
    line = visible(" ".join(text.split("\n")))
    if len(line) <= width:
        return line
    return f"{line[: width - 1].rpartition(' ')[0]} …"


def wrapped(text: str, width: int, indent: str = MARGIN, *, hanging: str = "") -> list[str]:
    """Lines of a text, in which the ends of lines are spaces."""
    return wrap(
        visible(" ".join(text.split("\n"))),
        width,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def minutes(seconds: float) -> str:
    """As on a clock: 0:34."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
