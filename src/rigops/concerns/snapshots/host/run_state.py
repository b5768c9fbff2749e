"""How the snapshots of this machine are, as the last run wrote it down for doctor and the check."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rigops.backup.host.state_file import read_state, write_state
from rigops.concerns.snapshots.state import STATE_FILE, STATE_SCHEMA

if TYPE_CHECKING:
    from datetime import datetime

    from rigops.concerns.snapshots.host.snapshot_documents import SnapshotsRecord


_SNAPSHOT_SHAPES = {
    "subvolumes": dict, "nested": dict, "target": dict, "scrub": dict, "clock": dict, "held": list,
}  # fmt: skip


def read_snapshots_state() -> SnapshotsRecord:
    return cast("SnapshotsRecord", read_state(STATE_FILE, STATE_SCHEMA, _SNAPSHOT_SHAPES))


def write_snapshots_state(found: SnapshotsRecord, now: datetime) -> None:
    write_state(STATE_FILE, STATE_SCHEMA, found, now)
