"""How the backups of this machine are, as the last run noted it for doctor and the self-check."""

from __future__ import annotations

import errno
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rigops.concerns.snapshots.host.btrfs import HostError
from rigops.concerns.snapshots.host.marks import replace_file
from rigops.concerns.snapshots.host.names import UTC_TIME

BORG_STATE_FILE = "/var/lib/rigops/borg.json"
BORG_STATE_SCHEMA = "rigops.borg_state/1"


def read_borg_state(path: str = BORG_STATE_FILE) -> dict[str, Any]:
    """Empty where there is none that can be read."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    is_known = isinstance(found, dict) and found.get("schema") == BORG_STATE_SCHEMA
    return found if is_known else {}


def write_borg_state(found: dict[str, Any], path: str = BORG_STATE_FILE) -> None:
    document = {**found, "schema": BORG_STATE_SCHEMA, "at": utc_text(now_utc())}
    try:
        Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        replace_file(Path(path), f"{json.dumps(document, indent=1, sort_keys=True)}\n", 0o644)
    except OSError as error:
        raise read_os_error("the state", error) from error


def known_repository(location: str) -> dict[str, Any]:
    """What is noted of the repository that is declared; empty where it was another one."""
    found = read_borg_state().get("repository") or {}
    return found if found.get("location") == location else {}


def now_utc() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


def utc_text(at: datetime) -> str:
    return at.astimezone(timezone.utc).strftime(UTC_TIME)


def parse_utc_text(text: object) -> datetime | None:
    try:
        return datetime.strptime(str(text), UTC_TIME).replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def read_os_error(what: str, error: OSError) -> HostError:
    where = f"{error.filename}: " if error.filename else ""
    fix = "remove files there" if error.errno == errno.ENOSPC else ""
    return HostError(f"{what}: {where}{error.strerror or error}", fix)
