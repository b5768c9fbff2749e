"""The last self-check of a host, by its own record."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Final

from rigops import json_dataclass
from rigops.dataclass import dataclass
from rigops.json_dataclass import NAME, Time
from rigops.probe.sections.rigops_state import STATE

PATH: Final = f"{STATE}/self_check.json"
SCHEMA: Final = "rigops.self_check/1"
TEXTFILE_PATH: Final = f"{STATE}/metrics.json"  # of the file for node_exporter
TEXTFILE_SCHEMA: Final = "rigops.metrics/1"
WELL: Final = "ok"


@dataclass(frozen=True)
class Problem:
    status: str
    id: str
    subject: str
    summary: str


@dataclass(frozen=True)
class LastSelfCheck:
    at: Time  # by the host's clock
    problems: tuple[Problem, ...] = field(metadata={NAME: "findings"})


def parse(text: str) -> LastSelfCheck:
    found = json_dataclass.parse(LastSelfCheck, text, schema=SCHEMA, place=PATH)
    return replace(found, problems=tuple(one for one in found.problems if one.status != WELL))
