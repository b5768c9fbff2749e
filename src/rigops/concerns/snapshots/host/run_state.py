"""How the snapshots of this machine are, as the last run wrote it down for doctor and the check."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rigops.concerns.snapshots.host.creating import as_host_error
from rigops.concerns.snapshots.host.marks import replace_file
from rigops.concerns.snapshots.host.names import UTC_TIME

STATE_FILE = "/var/lib/rigops/snapshots.json"
STATE_SCHEMA = "rigops.snapshots_state/1"


def read_state(path: str = STATE_FILE) -> dict[str, Any]:
    """Empty where there is none that can be read."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    is_ours = isinstance(found, dict) and found.get("schema") == STATE_SCHEMA
    return found if is_ours else {}


def write_state(found: dict[str, Any], now: datetime, path: str = STATE_FILE) -> None:
    document = {**found, "schema": STATE_SCHEMA, "at": state_time(now)}
    try:
        Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        replace_file(Path(path), f"{json.dumps(document, indent=1, sort_keys=True)}\n", 0o644)
    except OSError as error:
        raise as_host_error("the state", error) from error


def state_time(at: datetime) -> str:
    return at.astimezone(timezone.utc).strftime(UTC_TIME)


def parse_state_time(text: object) -> datetime | None:
    try:
        return datetime.strptime(str(text), UTC_TIME).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
