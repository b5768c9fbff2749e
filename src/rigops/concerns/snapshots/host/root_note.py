"""A rollback's record until its end, beside the snapshots.

It is at the top level of the file system, where each of the two roots finds it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.errors import as_host_error
from rigops.backup.host.state_file import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.backup.host.subvolumes import Subvolume
    from rigops.backup.host.volumes import Volume

# Where a rollback is: it runs, its reboot is due, or it did not come to the exchange.
RUNS, WAITS, NOT_BEGUN = "runs", "waits", "not begun"

_NOTE_FILE = ".rigops/rollback.json"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class RollbackNote(NamedTuple):
    """Paths are from the top level. `made`: UUID of the new root, empty before there is one.

    `temporary`: its first path. `boot`: the one in which it was made.
    """

    snapshot: str
    root: str
    aside: str
    temporary: str
    boot: str
    nested: tuple[str, ...] = ()
    made: str = ""

    @property
    def is_of_this_boot(self) -> bool:
        """Its new root has run in no boot, unless it is the one that runs now."""
        return self.boot == boot_id()


def read_rollback_note(volume: Volume) -> RollbackNote | None:
    try:
        found = json.loads(_note_path(volume).read_text(encoding="utf-8"))
        words = {key: str(found[key]) for key in RollbackNote._fields if key != "nested"}
        return RollbackNote(**words, nested=tuple(map(str, found["nested"])))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_rollback_note(volume: Volume, note: RollbackNote) -> None:
    try:
        path = _note_path(volume)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        replace_file(path, f"{json.dumps(note._asdict())}\n")
    except OSError as error:
        raise as_host_error("the note of the rollback", error) from error


def remove_rollback_note(volume: Volume) -> None:
    try:
        _note_path(volume).unlink()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise as_host_error("the note of the rollback", error) from error


def stage_of(note: RollbackNote, running: int, every: Iterable[Subvolume]) -> str:
    """`running`: the number of the subvolume that is mounted at /."""
    made = next((one for one in every if note.made and one.uuid == note.made), None)
    if made is None:
        return NOT_BEGUN
    if made.number == running:
        return RUNS
    return WAITS if made.path == note.root else NOT_BEGUN


def boot_id() -> str:
    return Path(_BOOT_ID).read_text(encoding="ascii").strip()


def _note_path(volume: Volume) -> Path:
    return Path(volume.top, _NOTE_FILE)
