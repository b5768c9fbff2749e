"""What borg's program writes down and answers. For type checkers only: hosts run none of it."""

from __future__ import annotations

from typing import TypedDict


class LockNote(TypedDict):
    host: str
    pid: int
    age_s: int


class RepositoryNote(TypedDict, total=False):
    location: str
    id: str
    state: str
    error: str | None
    fix: str | None
    borg: str
    last_borg: str
    lock: LockNote | None
    locked_since: str | None
    seen_at: str
    file_system: int
    free_bytes: int
    archives: int
    seen_archives: list[str]


class PastNote(TypedDict, total=False):
    """Of a check or a drill."""

    at: str
    result: str
    files: int
    error: str | None


class OlderDrillNote(TypedDict, total=False):
    archive: str
    at: str
    result: str
    files: int


class BorgRecord(TypedDict, total=False):
    schema: str
    at: str
    since: str
    repository: RepositoryNote
    clock: dict[str, str]
    held: list[str]
    newest_at: str | None
    last_compact_at: str | None
    last_check: PastNote
    last_drill: PastNote
    older_drill: OlderDrillNote


class CreatedArchive(TypedDict):
    name: str
    paths: list[str]
    files: int
    bytes: int
    added_bytes: int
    seconds: float
    checkpoints_left_out: int


class NamedArchive(TypedDict):
    name: str


class DrillRow(TypedDict, total=False):
    archive: str
    files: int
    bytes: int
    differing: list[str]
    older: OlderDrillNote | None
