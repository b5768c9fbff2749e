"""Documents on stdout, everything else on stderr; the terminal."""

from __future__ import annotations

import json
import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def print_json(document: Mapping[str, object]) -> None:
    """Keys keep their order: callers put the schema first."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        click.echo(f"Warning: {warning}", err=True)


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def text_width() -> int:
    """Columns for texts."""
    return min(get_terminal_size().columns, 100)
