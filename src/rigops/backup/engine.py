"""The interface of every storage engine, and its documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from rigops.dataclass import dataclass
from rigops.errors import Problem, RigopsError

if TYPE_CHECKING:
    from rigops.backup.answer_shape import ProgramResult

PARTIAL = "partial"  # the kind of an archive that lacks a declared path
PRUNE_MOST = "--prune-most"  # a person consents to the removal of more than half of the copies
MOVED = "--moved"  # and to another place of the repository, or of a declared path
Status = Literal["fail", "unknown", "warn", "ok"]


class BackupError(RigopsError):
    """A host could not do it; nothing that was there before is lost."""

    def __init__(self, host: str, message: str, fix: str = "") -> None:
        super().__init__(Problem(message=message, fix=fix, host=host))
        self.message = message


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Bytes; `total` is None where it is not known."""

    what: str
    done: int
    total: int | None
    per_s: float


@dataclass(frozen=True, kw_only=True)
class SnapshotPlace:
    place: str  # local, or the name of a target
    is_complete: bool


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """`bytes`: what removing it would free. `reasons`: why pruning leaves it."""

    name: str
    at: datetime
    kind: str
    engine: str
    places: tuple[SnapshotPlace, ...]
    bytes: int | None = None
    reasons: tuple[str, ...] = ()
    is_pruned_next: bool = False


@dataclass(frozen=True, kw_only=True)
class Subvolume:
    """`error`: why no snapshot of it can be taken now."""

    path: str
    nested: tuple[str, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    error: str = ""
    fix: str = ""


@dataclass(frozen=True, kw_only=True)
class BackupTarget:
    name: str
    state: str  # present, absent, unreachable or failed
    newest_at: datetime | None = None
    free_bytes: int | None = None
    size_bytes: int | None = None
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class ForeignTool:
    tool: str
    where: str


@dataclass(frozen=True, kw_only=True)
class EngineFailure:
    """Of one engine of several, whose answers are shown all the same."""

    engine: str
    message: str
    fix: str = ""


@dataclass(frozen=True, kw_only=True)
class HostSnapshots:
    """`raw`: the document of the host, which JSON shows as it is.

    `not_applied`: what is declared, and the host has no settings for.
    """

    subvolumes: tuple[Subvolume, ...]
    targets: tuple[BackupTarget, ...]
    foreign: tuple[ForeignTool, ...]
    raw: Mapping[str, object]
    failures: tuple[EngineFailure, ...] = ()
    not_applied: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RestoreRequest:
    """`at`: a time in UTC as RFC 3339, the name of a snapshot, or empty for the newest.

    `of`: the host whose archives these are, where another one took its place.
    """

    path: str
    at: str = ""
    place: str = ""
    to: str = ""
    in_place: bool = False
    of: str = ""


class StorageEngine(Protocol):
    """Of one host. Each raises BackupError or TransportError."""

    name: str

    def list(self, *, sizes: bool) -> HostSnapshots: ...

    def backup(self, *, dry_run: bool) -> ProgramResult:
        """Create, prune, and bring to the target what it lacks."""

    def restore(self, request: RestoreRequest, *, dry_run: bool) -> ProgramResult: ...

    def drill(self) -> ProgramResult:
        """Restore a sample of the newest, compare it, and leave nothing of it there."""


def newest_at(found: HostSnapshots) -> Mapping[str, datetime | None]:
    """By path: the age of a backup is counted from there. Torn and partial copies are none."""
    return {
        one.path: max(
            (
                snapshot.at
                for snapshot in one.snapshots
                if snapshot.kind != PARTIAL and any(place.is_complete for place in snapshot.places)
            ),
            default=None,
        )
        for one in found.subvolumes
    }


def judge_snapshots(found: HostSnapshots) -> Status:
    """A target that is absent is a normal state."""
    if found.failures or any(one.error for one in found.subvolumes):
        return "fail"
    if found.not_applied or any(one.state in {"unreachable", "failed"} for one in found.targets):
        return "warn"
    is_torn = any(
        not place.is_complete
        for one in found.subvolumes
        for snapshot in one.snapshots
        if snapshot.kind != "rollback"
        for place in snapshot.places
    )
    return "warn" if is_torn else "ok"


ProgressListener = Callable[[Progress], None]
