"""Reads all of the declared file systems, and of the target where it is a disk that is present."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

from rigops.backup.host.btrfs import last_line
from rigops.backup.host.errors import HostError
from rigops.backup.host.one_run import only_run
from rigops.backup.host.snapshot_settings import read_snapshot_settings
from rigops.backup.host.volumes import find_source
from rigops.backup.utc import utc_now, utc_text
from rigops.concerns.snapshots.host.creating import nothing_declared
from rigops.concerns.snapshots.host.place import LocalPlace
from rigops.concerns.snapshots.host.run_state import read_snapshots_state, write_snapshots_state
from rigops.concerns.snapshots.host.targets import open_target

if TYPE_CHECKING:
    import argparse

    from rigops.backup.host.output import Output
    from rigops.concerns.snapshots.host.snapshot_documents import ScrubNote

_FOUND_ERRORS = 3  # what scrub exits with
_ERROR_COUNT = re.compile(
    r"^\s*(?:read_errors|csum_errors|verify_errors|super_errors):\s*([0-9]+)$", re.MULTILINE
)


def add_scrub(commands: Any) -> None:
    parser = commands.add_parser("scrub", help="read and check all data of the file systems")
    parser.set_defaults(carry_out=scrub)


def scrub(options: argparse.Namespace, output: Output) -> int:
    """Snapshots are taken meanwhile: what is noted is put into the state of the last run."""
    del options
    settings = read_snapshot_settings()
    if settings is None or not settings.subvolumes:
        raise nothing_declared()
    has_failed = False
    volumes = {}
    for path in settings.subvolumes:
        try:
            volume = find_source(path).volume
        except HostError as error:
            output.error(error)
            has_failed = True
            continue
        volumes[volume.uuid] = volume
    target = open_target(settings)
    if target and isinstance(target.place, LocalPlace):
        volumes[target.place.volume.uuid] = target.place.volume
    done: dict[str, ScrubNote] = {}
    for uuid, volume in volumes.items():
        try:
            errors = scrub_volume(uuid, volume.top)
        except HostError as error:
            output.error(error)
            has_failed = True
            continue
        done[uuid] = {"at": utc_text(utc_now()), "errors": errors}
        output.notice(f"{uuid}: {errors} errors")
        has_failed = has_failed or errors > 0
    with only_run(wait_s=60.0):
        state = read_snapshots_state()
        state["scrub"] = {**state.get("scrub", {}), **done}
        write_snapshots_state(state, utc_now())
    output.result({"scrubbed": [{"file_system": uuid, **found} for uuid, found in done.items()]})
    return int(has_failed)


def scrub_volume(uuid: str, top: str) -> int:
    """How many errors, corrected ones too."""
    found = subprocess.run(
        ["btrfs", "scrub", "start", "-B", "-R", top],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    text = found.stdout.decode(errors="replace")
    errors = sum(int(number) for number in _ERROR_COUNT.findall(text))
    if found.returncode not in (0, _FOUND_ERRORS) and not errors:
        said = last_line(found.stderr.decode(errors="replace")) or "scrub failed"
        raise HostError(f"{uuid}: {said}", "see `btrfs scrub status`")
    return errors
