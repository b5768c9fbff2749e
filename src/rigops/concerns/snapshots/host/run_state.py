"""How the snapshots of this machine are, as the last run wrote it down for doctor and the check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rigops.backup.host.state_file import read_state, write_state
from rigops.concerns.snapshots.state import STATE_FILE, STATE_SCHEMA

if TYPE_CHECKING:
    from datetime import datetime


def read_snapshots_state() -> dict[str, Any]:
    return read_state(STATE_FILE, STATE_SCHEMA)


def write_snapshots_state(found: dict[str, Any], now: datetime) -> None:
    write_state(STATE_FILE, STATE_SCHEMA, found, now)
