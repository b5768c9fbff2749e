"""What an operation is going to change, for the plan. Under plain pyinfra nobody reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pyinfra.api.host import Host

CHANGES = "rigops_changes"
BLOCKED = "rigops_blocked"


@dataclass(frozen=True)
class Change:
    concern: str
    kind: Literal["file", "argument"]
    subject: str
    before: str | None
    after: str | None


def announce(host: Host, change: Change) -> None:
    """Say it once, before the first command of the operation."""
    host.connector_data.setdefault(CHANGES, []).append(change)


def announced(host: Host) -> list[Change]:
    return list(host.connector_data.get(CHANGES, []))
