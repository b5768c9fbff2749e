"""Documents on stdout, everything else on stderr; what the terminal can do."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final, TextIO

from rigops.report.terminal import print_lines, print_text

if TYPE_CHECKING:
    from rigops.report.closing import Again, Row

_MOST_COLUMNS: Final = 100


def print_json(document: Mapping[str, object]) -> None:
    """Keys keep their order: callers put the schema first."""
    print_text(json.dumps(document, indent=2))


def warn(warnings: Iterable[str]) -> None:
    print_lines(*(f"Warning: {warning}" for warning in warnings), err=True)


def print_declined(why: str, fix: str = "") -> None:
    print_lines(f"Declined: {why}.", *([f"    fix: {fix}"] if fix else []), err=True)


def print_closing(rows: Sequence[Row], again: Again) -> None:
    """What came of each host, and what to type next; after an empty line where that is a table."""
    from rigops.report.closing import closing_lines

    lines = closing_lines(rows, text_width(), again)
    print_lines(*([""] if len(lines) > 1 else []), *lines)


def has_terminal() -> bool:
    return has_keyboard() and sys.stderr.isatty()


def has_keyboard() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()  # None: closed


def text_width(stream: TextIO | None = None) -> int:
    """Columns for texts on stdout, or on `stream`. Where that is no terminal, lines stay whole."""
    stream = sys.stdout if stream is None else stream
    return min(get_terminal_size().columns, _MOST_COLUMNS) if stream.isatty() else sys.maxsize
