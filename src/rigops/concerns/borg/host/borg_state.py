"""How the backups of this machine are, as the last run noted it for doctor and the self-check."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rigops.backup.host.state_file import read_state, write_state
from rigops.backup.utc import utc_now, utc_text
from rigops.concerns.borg.state import BORG_STATE_FILE, BORG_STATE_SCHEMA

if TYPE_CHECKING:
    from rigops.concerns.borg.host.borg_documents import BorgRecord, RepositoryNote

_BORG_SHAPES = {
    "repository": dict, "last_check": dict, "last_drill": dict, "older_drill": dict, "clock": dict,
    "held": list,
}  # fmt: skip


def read_borg_state() -> BorgRecord:
    return cast("BorgRecord", read_state(BORG_STATE_FILE, BORG_STATE_SCHEMA, _BORG_SHAPES))


def write_borg_state(found: BorgRecord) -> None:
    """`since`: from when on there was something to check, and to restore for a drill."""
    now = utc_now()
    write_state(BORG_STATE_FILE, BORG_STATE_SCHEMA, {"since": utc_text(now), **found}, now)


def known_repository(location: str) -> RepositoryNote:
    """The record of the declared repository; empty where it was another one."""
    found = read_borg_state().get("repository", {})
    return found if found.get("location") == location else {}
