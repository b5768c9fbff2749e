"""What the last self-check of a host found, as its own record has it."""

from __future__ import annotations

from typing import Final

from rigops import json_fields
from rigops.dataclass import dataclass
from rigops.probe.sections.rigops_state import STATE

PATH: Final = f"{STATE}/self_check.json"
SCHEMA: Final = "rigops.self_check/1"
WELL: Final = "ok"


@dataclass(frozen=True)
class Problem:
    status: str
    id: str
    subject: str
    summary: str


@dataclass(frozen=True)
class LastSelfCheck:
    at: str  # RFC 3339, UTC, by the host's clock
    problems: tuple[Problem, ...]


def parse(text: str) -> LastSelfCheck:
    fields = json_fields.parse(text, place=PATH)
    fields.require_schema(SCHEMA)
    found = (
        Problem(one.text("status"), one.text("id"), one.text("subject"), one.text("summary"))
        for one in fields.each("findings")
    )
    return LastSelfCheck(fields.time("at"), tuple(one for one in found if one.status != WELL))
