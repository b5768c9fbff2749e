"""The text of a first inventory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import indent
from typing import TYPE_CHECKING

from rigops.python_literal import literal
from rigops.rendering import render
from rigops.report.words import MARGIN, wrapped

if TYPE_CHECKING:
    from rigops.doctor.proposal import ProposedKeys

_WIDTH = 96


def inventory_text(hosts: Sequence[str], date: str) -> str:
    return render("inventory.py.j2", hosts=hosts, date=date)


def host_text(name: str, reached: Mapping[str, object], entries: Sequence[ProposedKeys]) -> str:
    """One host of a group; `reached`: its ssh keys."""
    lines = [_line(key, value) for key, value in reached.items()]
    for entry in sorted(entries, key=lambda one: not one.holds):
        together = " ".join(_line(key, value) for key, value in entry.keys.items())
        lines += [*_comment(entry.reason), together if entry.holds else f"# {together}"]
    if not lines:
        return indent(f"{literal(name)},", MARGIN)
    body = indent("\n".join(lines), MARGIN * 2)
    return indent(f"(\n{MARGIN}{literal(name)},\n{MARGIN}{{\n{body}\n{MARGIN}}},\n),", MARGIN)


def keys_text(keys: Mapping[str, object]) -> str:
    """As the dict of a host has them."""
    return ", ".join(f"{literal(key)}: {literal(value)}" for key, value in keys.items())


def _line(key: str, value: object) -> str:
    return f"{literal(key)}: {literal(value)},"


def _comment(reason: str) -> list[str]:
    """Every line becomes a comment: output of a host in it cannot become code."""
    return wrapped(reason, _WIDTH - 12, "# ")
