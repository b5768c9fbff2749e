"""What the programs of both engines answer. For type checkers only: hosts run none of it."""

from __future__ import annotations

from typing import TypedDict


class Refusal(TypedDict):
    message: str
    fix: str


class CopyPlace(TypedDict):
    place: str
    is_complete: bool


class CopyRow(TypedDict):
    """A snapshot or an archive."""

    name: str
    at: str | None
    kind: str | None
    engine: str
    places: list[CopyPlace]
    bytes: int | None
    reasons: list[str]
    is_pruned_next: bool


class SubvolumeRow(TypedDict):
    path: str
    file_system: str | None
    subvolume: str | None
    nested: list[str]
    error: Refusal | None
    snapshots: list[CopyRow]


class TargetRow(TypedDict):
    name: str
    state: str
    newest_at: str | None
    free_bytes: int | None
    size_bytes: int | None
    error: str | None


class Moved(TypedDict, total=False):
    """What a restore has put in its place."""

    restored_to: str
    aside: str | None
    to_do: str | None


class _Restored(TypedDict):
    path: str
    kind: str
    snapshot: str
    at: str | None
    place: str
    restored_to: str
    bytes: int | None
    aside: str | None
    to_do: str | None


class Restored(_Restored, total=False):
    engine: str
    seconds: float
