"""The drill of an unmanaged backup: a sample of the newest comes back, and is as its source."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigops.concerns.borg.host.archive_contents import ArchivedFile
from rigops.concerns.borg.host.borg_run_lock import only_borg_run
from rigops.concerns.borg.host.borg_state import now_utc, read_os_error, utc_text
from rigops.concerns.borg.host.sampling import choose_sample, digest_of
from rigops.concerns.borg.host.saved_states import FILE
from rigops.concerns.borg.host.tool_run import ToolError
from rigops.concerns.borg.host.tool_unit import (
    OnlyAgeKnownError,
    demand_tool_unit,
    watched_unit,
)
from rigops.concerns.borg.host.unmanaged_listing import open_saved_states
from rigops.concerns.snapshots.host.btrfs import HostError
from rigops.concerns.snapshots.host.marks import replace_file

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from rigops.concerns.borg.host.saved_states import SavedItem, SavedState, SavedStates
    from rigops.concerns.snapshots.host.output import Output

UNMANAGED_STATE = "/var/lib/rigops/unmanaged_backup.json"
UNMANAGED_SCHEMA = "rigops.unmanaged_backup/1"

_SCRATCH_FOLDER = "/var/lib/rigops/unmanaged-drill"
_MOST_OF_SAMPLE = 100 << 20


def add_unmanaged_drill(commands: Any) -> None:  # noqa: ANN401 - argparse does not name its type
    parser = commands.add_parser("drill", help=__doc__)
    parser.set_defaults(carry_out=drill_unmanaged)


def drill_unmanaged(_options: argparse.Namespace, output: Output) -> int:
    try:
        unit = demand_tool_unit()
    except OnlyAgeKnownError as refusal:
        with only_borg_run():
            _write({"unit": watched_unit(), "tool": refusal.tool, "last_drill": None})
        raise
    tool = open_saved_states(unit)
    error: HostError | None = None
    found: dict[str, Any] = {"engine": unit.tool}
    with only_borg_run():
        states = tool.states()
        state = newest_in_turn(states)
        try:
            found.update(_try(tool, state))
            if found["differing"]:
                names = ", ".join(found["differing"][:3])
                error = HostError(
                    f"{state.name}: {len(found['differing'])} of {found['files']} restored files "
                    f"differ from their source: {names}",
                    f"do not rely on this backup; let {unit.tool} check its repository",
                )
        except HostError as refusal:
            error = refusal
        except OSError as refusal:
            error = read_os_error("the drill", refusal)
        if not (isinstance(error, ToolError) and error.is_locked):
            outcome = {
                "at": utc_text(now_utc()),
                "result": "failed" if error else "ok",
                "files": found.get("files", 0),
                "error": error.message if error else None,
                "place": state.place,
            }
            _write(
                {
                    "unit": unit.name,
                    "tool": unit.tool,
                    "repository": tool.repository_of(state),
                    "newest_at": utc_text(max(one.at for one in states)),
                    "last_drill": outcome,
                }
            )
    if error:
        output.error(error)
    else:
        output.notice(f"{state.name}: {found['files']} files restored, all as their source")
    output.result({"drill": {**found, "result": "failed" if error else "ok"}})
    return int(error is not None)


def newest_in_turn(states: list[SavedState]) -> SavedState:
    """Where there are several repositories, of the one that follows the last one tried."""
    places = sorted({one.place for one in states})
    if not places:
        raise HostError("there is no backup of this machine yet", "let the unit make one")
    last = str((read_unmanaged_state().get("last_drill") or {}).get("place") or "")
    place = next((one for one in places if one > last), places[0])
    return max(one for one in states if one.place == place)


def _try(tool: SavedStates, state: SavedState) -> dict[str, Any]:
    with _scratch() as folder:
        free = os.statvfs(folder)
        room = min(_MOST_OF_SAMPLE, free.f_bavail * free.f_frsize // 2)
        unchanged = unchanged_since(tool.items(state), state.at.timestamp())
        sample = choose_sample(unchanged, room, f"{state.identity} {now_utc()}")
        if not sample.files:
            raise HostError(
                f"{state.name} has no file that is unchanged since, and so none to compare",
                "let the unit make a backup, then try again",
            )
        began_ns = time.time_ns()
        tool.extract(state, [one.path for one in sample.files], folder)
        looks = {one.path: compare(folder, one, began_ns) for one in sample.files}
    if set(looks.values()) == {"changed"}:
        raise HostError("every file of the sample has changed meanwhile", "try again")
    return {
        "archive": state.name,
        "place": state.place,
        "files": len([one for one in looks.values() if one != "changed"]),
        "bytes": sample.bytes,
        "differing": [f"/{path}" for path, look in looks.items() if look == "differs"],
    }


def unchanged_since(items: Iterable[SavedItem], at_s: float) -> Iterator[ArchivedFile]:
    for one in items:
        if one.kind != FILE:
            continue
        try:
            live = os.lstat(f"/{one.path}")
        except OSError:
            continue
        if stat.S_ISREG(live.st_mode) and live.st_size == one.size and live.st_mtime < at_s:
            yield ArchivedFile(one.path, one.size)


def compare(folder: str, archived: ArchivedFile, began_ns: int) -> str:
    """same, differs, or changed: the source is another one by now."""
    restored, live = f"{folder}/{archived.path}", f"/{archived.path}"
    try:
        before = os.lstat(live)
    except OSError:
        return "changed"
    try:
        found = os.lstat(restored)
        if found.st_size != archived.size:
            return "differs"
        if (found.st_size, found.st_mtime_ns) == (before.st_size, before.st_mtime_ns):
            is_same = digest_of(restored) == digest_of(live)
        else:
            return "changed"
    except OSError:
        return "differs"
    if not is_same and os.lstat(live).st_ctime_ns >= began_ns:
        return "changed"
    return "same" if is_same else "differs"


@contextmanager
def _scratch() -> Iterator[str]:
    """What a killed drill left goes first."""
    shutil.rmtree(_SCRATCH_FOLDER, ignore_errors=True)
    Path(_SCRATCH_FOLDER).mkdir(mode=0o700, parents=True)
    try:
        yield _SCRATCH_FOLDER
    finally:
        shutil.rmtree(_SCRATCH_FOLDER, ignore_errors=True)


def read_unmanaged_state(path: str = UNMANAGED_STATE) -> dict[str, Any]:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(found: dict[str, Any]) -> None:
    document = {"schema": UNMANAGED_SCHEMA, "at": utc_text(now_utc()), **found}
    path = Path(UNMANAGED_STATE)
    replace_file(path, f"{json.dumps(document, indent=1, sort_keys=True)}\n", 0o644)
