"""What the program writes down and answers. For type checkers only: hosts run none of it."""

from __future__ import annotations

from typing import TypedDict


class SubvolumeNote(TypedDict):
    newest_at: str | None
    error: str | None


class TargetNote(TypedDict, total=False):
    name: str
    state: str
    newest_at: dict[str, str]
    seen_at: str | None
    error: str | None
    free_bytes: int | None
    sent_bytes: dict[str, int]


class ScrubNote(TypedDict):
    at: str
    errors: int


class SnapshotsRecord(TypedDict, total=False):
    schema: str
    at: str
    subvolumes: dict[str, SubvolumeNote]
    nested: dict[str, list[str]]
    target: TargetNote | None
    scrub: dict[str, ScrubNote]
    clock: dict[str, str]
    held: list[str]


class TargetRow(TypedDict):
    """Of a run."""

    name: str
    state: str
    free_bytes: int | None
    error: str | None


class CreatedSnapshot(TypedDict):
    path: str
    name: str


class PrunedSnapshot(TypedDict):
    path: str
    name: str
    place: str


class SentSnapshot(TypedDict):
    path: str
    name: str
    parent: str | None
    bytes: int | None
    seconds: float | None


class NewerFolder(TypedDict):
    path: str
    files: int


class NewerFiles(TypedDict):
    """`examples`: from every folder that is named."""

    files: int
    folders: list[NewerFolder]
    examples: list[str]


class RollbackRow(TypedDict):
    snapshot: str
    at: str
    kind: str
    root: str
    file_system: str
    aside: str
    nested: list[str]
    kernel: str
    newer: NewerFiles
    notices: list[str]


class FinishedRollback(TypedDict):
    snapshot: str
    aside: str
    root: str
    is_running: bool
