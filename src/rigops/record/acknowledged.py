"""Findings of a host that a person knows and lives with. On the machine that rigops runs on."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rigops.dataclass import dataclass
from rigops.json_dataclass import Time, document, parse
from rigops.record import host_file

FOLDER: Final = "acknowledged"
_SCHEMA: Final = "rigops.acknowledged/1"


@dataclass(frozen=True, kw_only=True)
class Acknowledgement:
    """`id` to `summary`: of the finding as it was. `until`: the last day; None: for good.

    `last`: of an incident, when it last happened, by the host's clock. `xid`: which.
    """

    id: str
    subject: str
    status: str
    summary: str
    who: str
    at: Time
    because: str
    until: str | None = None
    last: str | None = None
    xid: int | None = None

    @property
    def text(self) -> str:
        until = f" until {self.until}" if self.until else ""
        return f"acknowledged by {self.who} on {self.at[:10]}{until}: {self.because}"


@dataclass(frozen=True)
class Acknowledged:
    host: str
    findings: tuple[Acknowledgement, ...] = ()

    def to_json(self) -> str:
        return document(_SCHEMA, self)


def read(host: str) -> Acknowledged:
    text = host_file.read(FOLDER, host)
    if text is None:
        return Acknowledged(host)
    place = str(host_file.path_of(FOLDER, host))
    return parse(Acknowledged, text, schema=_SCHEMA, place=place, fix=host_file.FIX)


def write(acknowledged: Acknowledged) -> Path:
    return host_file.write(FOLDER, acknowledged.host, acknowledged.to_json())
