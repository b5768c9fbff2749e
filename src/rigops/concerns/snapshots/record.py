"""How the snapshots of a host are, as the program there wrote it down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rigops import json_fields
from rigops.dataclass import dataclass
from rigops.probe.sections.rigops_state import STATE

if TYPE_CHECKING:
    from rigops.json_fields import Fields

KEY: Final = "/etc/rigops/snapshots_key"  # made on the host, and never leaves it
PUBLIC_KEY: Final = f"{KEY}.pub"
PATH: Final = f"{STATE}/snapshots.json"
SCHEMA: Final = "rigops.snapshots_state/1"


@dataclass(frozen=True)
class SubvolumeState:
    """`newest_at`: RFC 3339, UTC; None: it has no snapshot. `error`: of the last run."""

    newest_at: str | None
    error: str


@dataclass(frozen=True, kw_only=True)
class TargetState:
    """`state`: present, absent, unreachable or failed. `seen_at`: when it was present last."""

    name: str
    state: str
    newest_at: Mapping[str, str]  # by path
    seen_at: str | None
    error: str


@dataclass(frozen=True, kw_only=True)
class SnapshotsState:
    """`at`: when it was written. `nested`: subvolumes inside of a declared one, by its path.

    `held`: why the last run did not remove all that retention no longer keeps.
    """

    at: str
    subvolumes: Mapping[str, SubvolumeState]
    target: TargetState | None
    nested: Mapping[str, tuple[str, ...]]
    held: tuple[str, ...] = ()


def parse(text: str) -> SnapshotsState:
    fields = json_fields.parse(text, place=PATH)
    fields.require_schema(SCHEMA)
    subvolumes, nested = fields.nested("subvolumes"), fields.nested("nested")
    target = fields.nested_or_none("target")
    return SnapshotsState(
        at=fields.time("at"),
        subvolumes={path: _subvolume(subvolumes.nested(path)) for path in subvolumes.names},
        target=_target(target) if target else None,
        nested={path: nested.texts(path) for path in nested.names},
        held=fields.texts("held") if fields.raw("held") else (),
    )


def _subvolume(fields: Fields) -> SubvolumeState:
    return SubvolumeState(_time_or_none(fields, "newest_at"), _text_or_empty(fields, "error"))


def _target(fields: Fields) -> TargetState:
    newest = fields.nested("newest_at")
    return TargetState(
        name=fields.text("name"),
        state=fields.text("state"),
        newest_at={path: at for path in newest.names if (at := _time_or_none(newest, path))},
        seen_at=_time_or_none(fields, "seen_at"),
        error=_text_or_empty(fields, "error"),
    )


def _time_or_none(fields: Fields, name: str) -> str | None:
    return None if fields.raw(name) is None else fields.time(name)


def _text_or_empty(fields: Fields, name: str) -> str:
    return "" if fields.raw(name) is None else fields.text(name)
