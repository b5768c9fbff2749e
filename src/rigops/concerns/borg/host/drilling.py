"""The drill: backs up, restores a sample into a scratch folder, and compares it with the source."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigops.backup.host.errors import HostError, as_host_error
from rigops.backup.utc import utc_now, utc_text
from rigops.concerns.borg.host.archive_contents import files_in_archive, only
from rigops.concerns.borg.host.backing_up import create_archive
from rigops.concerns.borg.host.borg_meanings import FAILED, NOT_TRIED, TO_BE_HEALED, BorgError
from rigops.concerns.borg.host.borg_process import BORG_FILES
from rigops.concerns.borg.host.borg_run_lock import only_borg_run
from rigops.concerns.borg.host.borg_settings import demand_borg_settings
from rigops.concerns.borg.host.borg_sources import frozen_sources
from rigops.concerns.borg.host.borg_state import known_repository, read_borg_state, write_borg_state
from rigops.concerns.borg.host.older_drill import drill_older
from rigops.concerns.borg.host.repository import (
    check_signatures,
    explain_refusal,
    is_for_later,
    list_repository,
    open_borg,
)
from rigops.concerns.borg.host.sampling import choose_sample, has_changed_since, is_same_file

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rigops.backup.host.output import Output
    from rigops.concerns.borg.host.borg_documents import DrillRow
    from rigops.concerns.borg.host.borg_process import Borg

SCRATCH = f"{BORG_FILES}/drill"

_MOST_BYTES = 1 << 30


def add_drill(commands: Any) -> None:
    parser = commands.add_parser("drill", help="prove that a restore works")
    parser.add_argument(
        "--by-timer", action="store_true", help="that the repository is away is no failure"
    )
    parser.set_defaults(carry_out=drill)


def drill(options: argparse.Namespace, output: Output) -> int:
    settings = demand_borg_settings()
    borg = open_borg(settings, options)
    error: HostError | None = None
    found: DrillRow = {}
    with only_borg_run():
        try:
            older = _drill(borg, output, found)
            if found["differing"]:
                names = ", ".join(found["differing"][:3])
                error = HostError(
                    f"{borg.repository}: {len(found['differing'])} of {found['files']} restored "
                    f"files differ from their source: {names}",
                    "do not rely on this repository; see `borg check --verify-data`",
                )
            else:
                found["older"] = drill_older(borg, older, output)
        except BorgError as refusal:
            error = explain_refusal(borg, refusal)
        except HostError as refusal:
            error = refusal
        except OSError as refusal:
            error = as_host_error("the drill", refusal)
        state = getattr(error, "state", FAILED) if error else ""
        if state not in NOT_TRIED:
            _note_drill(found, error, TO_BE_HEALED if state == TO_BE_HEALED else "failed")
    is_put_off = bool(error and options.by_timer and is_for_later(borg, error))
    if error and is_put_off:
        output.notice(f"{error.message}; no drill")
    elif error:
        output.error(error)
    else:
        output.notice(f"{found['archive']}: {found['files']} files restored, all as their source")
    output.result({"drill": {**found, "result": "failed" if error else "ok"}})
    return int(error is not None and not is_put_off)


def _drill(borg: Borg, output: Output, found: DrillRow) -> tuple[str, ...]:
    """The archives that were there before. `found` gets what is known, however far it comes."""
    listing = list_repository(borg)
    check_signatures(borg, known_repository(borg.repository))
    settings = borg.settings
    frozen = frozen_sources(settings.paths, settings.folder, output)
    with frozen as present, _scratch_folder() as folder:
        if not present:
            raise HostError("there is nothing to back up", "mount the declared paths")
        # An archive of this very source: what differs then was not changed meanwhile.
        began_ns = time.time_ns()
        name = create_archive(borg, list(present), listing.names, output, [])["name"]
        found["archive"] = name
        output.notice(f"{name}: made for this drill, and kept as any other")
        free = os.statvfs(folder)
        room = min(_MOST_BYTES, free.f_bavail * free.f_frsize // 2)
        sample = choose_sample(files_in_archive(borg, name), room, name)
        if not sample.files:
            raise HostError(f"{name} has no file that can be compared", "see paths and exclude")
        wanted = only(sample.files)
        borg.ask("extract", "--numeric-ids", *wanted, f"{borg.repository}::{name}", cwd=folder)
        differing = [
            f"/{one.path}"
            for one in sample.files
            if not is_same_file(f"{folder}/{one.path}", f"/{one.path}")
            and not has_changed_since(f"/{one.path}", began_ns)
        ]
    found.update({"files": len(sample.files), "bytes": sample.bytes, "differing": differing})
    return listing.names


@contextmanager
def _scratch_folder() -> Iterator[str]:
    """Remains of a killed drill are removed first."""
    shutil.rmtree(SCRATCH, ignore_errors=True)
    Path(SCRATCH).mkdir(mode=0o700, parents=True)
    try:
        yield SCRATCH
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)


def _note_drill(found: DrillRow, error: HostError | None, result: str) -> None:
    state = read_borg_state()
    state["last_drill"] = {
        "at": utc_text(utc_now()),
        "result": result if error else "ok",
        "files": found.get("files", 0),
        "error": error.message if error else None,
    }
    write_borg_state(state)
