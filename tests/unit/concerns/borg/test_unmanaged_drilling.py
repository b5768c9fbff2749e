"""What the drill of an unmanaged backup compares, and where a restore is made."""

from __future__ import annotations

import os
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

import pytest

from rigops.concerns.borg.host import unmanaged_drilling
from rigops.concerns.borg.host.archive_contents import ArchivedFile
from rigops.concerns.borg.host.saved_states import SavedItem, SavedState
from rigops.concerns.borg.host.unmanaged_drilling import compare, newest_in_turn, unchanged_since
from rigops.concerns.borg.host.unmanaged_restoring import made_folder
from rigops.concerns.snapshots.host.btrfs import HostError

if TYPE_CHECKING:
    from pathlib import Path

LONG_AGO_NS: Final = 10**18
NOW_S: Final = time.time() + 60


def write(file: Path, text: str, mtime_ns: int = LONG_AGO_NS) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, ns=(mtime_ns, mtime_ns))
    return file


def restored(folder: Path, live: Path, text: str, mtime_ns: int = LONG_AGO_NS) -> str:
    """The path without its slash."""
    inside = str(live).lstrip("/")
    write(folder / inside, text, mtime_ns)
    return inside


@pytest.mark.parametrize(
    ("text", "mtime_ns", "look"),
    [
        ("abc", LONG_AGO_NS, "same"),
        ("axc", LONG_AGO_NS, "differs"),
        ("abcd", LONG_AGO_NS, "differs"),  # from what the backup says that it has
        ("axc", LONG_AGO_NS + 1, "changed"),
    ],
)
def test_a_file_is_compared_where_size_and_time_are_the_same(
    tmp_path: Path, text: str, mtime_ns: int, look: str
) -> None:
    live = write(tmp_path / "live", "abc")
    inside = restored(tmp_path / "scratch", live, text, mtime_ns)

    later = time.time_ns() + 10**10
    assert compare(str(tmp_path / "scratch"), ArchivedFile(inside, 3), later) == look


def test_a_file_that_did_not_come_back_differs_and_one_that_is_gone_here_is_another(
    tmp_path: Path,
) -> None:
    live = write(tmp_path / "live", "abc")
    scratch, inside = str(tmp_path / "scratch"), ArchivedFile(str(live).lstrip("/"), 3)
    assert compare(scratch, inside, 0) == "differs"
    restored(tmp_path / "scratch", live, "axc")
    assert compare(scratch, inside, 0) == "changed"  # while it was restored
    live.unlink()
    assert compare(scratch, inside, 0) == "changed"


def test_only_files_as_they_were_then_are_in_a_sample(tmp_path: Path) -> None:
    old, new = (
        write(tmp_path / "old", "abc"),
        write(tmp_path / "new", "abc", int(NOW_S * 10**9) * 2),
    )
    (tmp_path / "link").symlink_to(old)
    items = [
        SavedItem(str(path).lstrip("/"), kind, size)
        for path, kind, size in (
            (old, "file", 3),
            (old, "file", 4),
            (new, "file", 3),
            (tmp_path, "directory", 0),
            (tmp_path / "link", "file", len(str(old))),
            (tmp_path / "none", "file", 3),
        )
    ]

    found = list(unchanged_since(items, NOW_S))

    assert [(one.path, one.size) for one in found] == [(str(old).lstrip("/"), 3)]


def test_repositories_take_turns_and_of_each_it_is_the_newest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def at(hour: int) -> datetime:
        return datetime(2026, 11, 25, hour, tzinfo=timezone.utc)

    states = [
        SavedState(at(hour), f"{place}{hour}", "", place) for place in "ab" for hour in (1, 2)
    ]
    names = []
    last = ""
    for _ in range(3):
        noted = {"last_drill": {"place": last}}
        monkeypatch.setattr(unmanaged_drilling, "read_unmanaged_state", lambda noted=noted: noted)
        chosen = newest_in_turn(states)
        names.append(chosen.name)
        last = chosen.place

    assert names == ["a2", "b2", "a2"]
    with pytest.raises(HostError, match="no backup of this machine"):
        newest_in_turn([])


def test_folders_that_a_failed_restore_made_go_again(tmp_path: Path) -> None:
    wanted = tmp_path / "there" / "a" / "b"
    (tmp_path / "there").mkdir()
    with pytest.raises(FileExistsError), made_folder(str(wanted)):
        wanted.mkdir()  # it is there

    assert list((tmp_path / "there").iterdir()) == []
    with made_folder(str(wanted)):
        pass
    assert wanted.is_dir()
