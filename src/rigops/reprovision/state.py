"""Facts that no host can show: when each stage began and ended, and which paths came back.

Beside the capture. The host itself shows all other progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Final

from rigops import atomic_file, regular_file
from rigops.dataclass import dataclass
from rigops.errors import RigopsError, rigops_error
from rigops.json_dataclass import document, parse

SCHEMA: Final = "rigops.reprovision_state/1"
NAME: Final = "reprovision.json"

_MODE: Final = 0o600
_MOST_BYTES: Final = 1024 * 1024
_MOST: Final = 200


@dataclass(frozen=True, kw_only=True)
class StageTime:
    """`ended`: empty while it runs, and of one that was cut off."""

    stage: str
    began: str
    ended: str = ""
    seconds: float = 0
    outcome: str = ""


@dataclass(frozen=True, kw_only=True)
class State:
    """`restored`: by machine id and path, the snapshot or archive that it came from."""

    stages: tuple[StageTime, ...] = ()
    restored: Mapping[str, str] = field(default_factory=dict)


def restored_key(machine_id: str, path: str) -> str:
    return f"{machine_id} {path}"


def read(folder: Path) -> State:
    """A damaged file is none: what came back comes back again, beside what is there."""
    try:
        text = regular_file.read(folder / NAME, most=_MOST_BYTES).decode()
        return parse(State, text, schema=SCHEMA, place=NAME)
    except (OSError, UnicodeDecodeError, RigopsError):
        return State()


def write(folder: Path, state: State) -> None:
    text = document(SCHEMA, replace(state, stages=state.stages[-_MOST:]), indent=1)
    try:
        atomic_file.replace(folder / NAME, text, _MODE)
    except OSError as error:
        raise rigops_error(
            message=f"cannot be written: {error.strerror or error}",
            file=str(folder / NAME),
            fix="make the folder of the capture writable",
        ) from error
