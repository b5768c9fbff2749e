"""How the snapshots of a host are, as the program there wrote it down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from rigops import json_dataclass
from rigops.dataclass import dataclass
from rigops.json_dataclass import Time
from rigops.json_fields import Fields
from rigops.probe.sections.rigops_state import STATE

KEY: Final = "/etc/rigops/snapshots_key"  # made on the host, and never leaves it
PUBLIC_KEY: Final = f"{KEY}.pub"
PATH: Final = f"{STATE}/snapshots.json"
SCHEMA: Final = "rigops.snapshots_state/1"


@dataclass(frozen=True)
class SubvolumeState:
    """`newest_at`: RFC 3339, UTC; None: it has no snapshot. `error`: of the last run."""

    newest_at: Time | None = None
    error: str = ""


def _times(fields: Fields, name: str) -> dict[str, str]:
    newest = fields.nested(name)
    return {path: newest.time(path) for path in newest.names if newest.raw(path) is not None}


@dataclass(frozen=True, kw_only=True)
class TargetState:
    """`state`: present, absent, unreachable or failed. `seen_at`: when it was present last."""

    name: str
    state: str
    newest_at: Annotated[Mapping[str, str], _times]  # by path
    seen_at: Time | None = None
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class SnapshotsState:
    """`at`: when it was written. `nested`: subvolumes inside of a declared one, by its path.

    `held`: why the last run did not remove all that retention no longer keeps.
    """

    at: Time
    subvolumes: Mapping[str, SubvolumeState]
    target: TargetState | None
    nested: Mapping[str, tuple[str, ...]]
    held: tuple[str, ...] = ()


def parse(text: str) -> SnapshotsState:
    return json_dataclass.parse(SnapshotsState, text, schema=SCHEMA, place=PATH)
