"""Causes that explain several findings of a host: rows of a table over the ids of checks."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from rigops.catalog.model import Form, Reports
from rigops.dataclass import dataclass

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")

StoryName = Annotated[
    str, Form(_NAME.fullmatch, "is not a name", 'words with hyphens: "bad-riser"')
]
Ids = Annotated[tuple[str, ...], Form(bool, "is empty", 'ids of checks: ["xid", "gpu.lost"]')]


@dataclass(frozen=True)
class Fact:
    """A value in the data of a finding; any, where `values` is empty."""

    key: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """Findings of these checks.

    `on`: how they belong to the cause: of its card ("cards": of no other card), or of its path,
    which is a card and the ports above it.
    `named`: only those that name their cause themselves, in their data.
    """

    ids: Ids
    on: Literal["host", "card", "cards", "path"] = "host"
    statuses: tuple[Literal["fail", "warn", "unknown"], ...] = ("fail", "warn")
    facts: tuple[Fact, ...] = ()
    named: bool = False


@dataclass(frozen=True)
class StoryRule:
    """`cause`: best first. `needs`: without one of them it is no story; they are effects too.

    `text` may name {cards}, the {summary} of the cause, and facts in its data. `page`: paragraphs
    for a person.
    """

    id: StoryName
    title: str
    cause: tuple[Part, ...]
    explains: tuple[Part, ...]
    text: str
    page: tuple[str, ...]
    evidence: Reports
    needs: tuple[Part, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        return (*self.cause, *self.needs, *self.explains)
