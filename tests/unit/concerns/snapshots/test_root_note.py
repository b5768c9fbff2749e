"""Where a rollback of the root is, by what it noted and by the subvolumes that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.backup.host.subvolumes import Subvolume
from rigops.backup.host.volumes import Volume
from rigops.concerns.snapshots.host.root_note import (
    NOT_BEGUN,
    RUNS,
    WAITS,
    RollbackNote,
    read_rollback_note,
    remove_rollback_note,
    stage_of,
    write_rollback_note,
)

if TYPE_CHECKING:
    from pathlib import Path

ASIDE = ".rigops/snapshots/@/20261125T080000Z-rollback"
NOTE = RollbackNote(
    snapshot="20261125T060001Z-apply",
    root="@",
    aside=ASIDE,
    temporary=".rigops-restore-0",
    boot="boot",
    nested=("srv/a",),
    made="new",
)


def subvolume(number: int, path: str, uuid: str) -> Subvolume:
    return Subvolume(number, 5, path, uuid, "", "", is_read_only=False)


@pytest.mark.parametrize(
    ("old", "new", "running", "stage"),
    [
        ("@", "", 256, NOT_BEGUN),
        ("@", ".rigops-restore-0", 256, NOT_BEGUN),
        ("@", ASIDE, 256, NOT_BEGUN),  # between two renames, or half undone
        (ASIDE, "@", 256, WAITS),
        (ASIDE, "@", 300, RUNS),
    ],
)
def test_the_stage_is_what_the_disk_says(old: str, new: str, running: int, stage: str) -> None:
    every = [subvolume(256, old, "old"), *([subvolume(300, new, "new")] if new else [])]
    assert stage_of(NOTE, running, every) == stage


def test_before_there_is_a_new_root_nothing_has_begun() -> None:
    note = NOTE._replace(made="")
    assert stage_of(note, 256, [subvolume(256, "@", "old")]) == NOT_BEGUN


def test_a_note_comes_back_as_it_was_written(tmp_path: Path) -> None:
    volume = Volume("uuid", "/dev/sda", str(tmp_path))
    assert read_rollback_note(volume) is None
    write_rollback_note(volume, NOTE)
    assert read_rollback_note(volume) == NOTE
    remove_rollback_note(volume)
    remove_rollback_note(volume)
    assert read_rollback_note(volume) is None
    (tmp_path / ".rigops/rollback.json").write_text("{")
    assert read_rollback_note(volume) is None
