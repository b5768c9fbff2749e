"""Snapshots of a host in lines."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from rigops.backup.engine import (
    BackupTarget,
    EngineFailure,
    HostSnapshots,
    Progress,
    Snapshot,
    SnapshotPlace,
    Subvolume,
    judge_snapshots,
)
from rigops.errors import HostError
from rigops.report.snapshots import (
    backup_lines,
    bytes_text,
    drill_lines,
    heal_lines,
    progress_text,
    restored_lines,
    snapshots_lines,
)
from rigops.report.terminal import rendered
from rigops.report.words import error_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.backup.answer_shape import ProgramResult

NOW = datetime(2026, 11, 25, 12, 0, tzinfo=timezone.utc)
DISK = "605328de-628e-4974-a8cc-17603bca4ebe"


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC0")
        time.tzset()
        yield
    time.tzset()


def snapshot(hours: int, *reasons: str, **changes: bool) -> Snapshot:
    at = NOW - timedelta(hours=hours)
    return Snapshot(
        name=f"{at:%Y%m%dT%H%M%SZ}-timer",
        at=at,
        kind="timer",
        engine="btrfs",
        places=(
            SnapshotPlace(place="local", is_complete=True),
            SnapshotPlace(place=DISK, is_complete=changes.get("is_complete", True)),
        ),
        bytes=12 << 20,
        reasons=reasons,
        is_pruned_next=not reasons,
    )


def shown(*snapshots: Snapshot, width: int = 80) -> list[str]:
    home = Subvolume(path="/home", nested=("vm/disks",), snapshots=snapshots)
    target = BackupTarget(name=DISK, state="present", free_bytes=1 << 30, size_bytes=4 << 30)
    found = HostSnapshots(subvolumes=(home,), targets=(target,), foreign=(), raw={})
    lines = snapshots_lines("rig", "ok", found, NOW, width, verbose=False)
    return [rendered(line, color=False) for line in lines]


def test_a_line_of_authorized_keys_is_shown_whole_however_narrow_the_screen_is() -> None:
    line = 'restrict,command="borg serve --restrict-to-repository /srv/rig" ssh-ed25519 AAAA rig'
    error = HostError("failed", "refused", f"on me@nas, append this line to its keys: {line}")

    assert error_lines(f"rig: {error.message}", error.fix, 40)[-1] == line


def test_each_snapshot_has_a_row_the_newest_first_and_what_goes_next_says_so() -> None:
    lines = shown(snapshot(30), snapshot(2, "newest", "hourly"))

    (newest, oldest) = [line for line in lines if "timer" in line]
    assert " ".join(newest.split()) == (
        "2026-11-25 10:00:00 2 h timer local, 605328de 12 MiB newest, hourly"
    )
    assert oldest.endswith("goes next")
    assert any("nested subvolumes): vm/disks" in line for line in lines)
    assert any("1.0 GiB of 4.0 GiB free" in line for line in lines)


@pytest.mark.parametrize("width", [80, 100])
def test_it_fits_the_terminal(width: int) -> None:
    reasons = ("newest", "hourly", "daily", "weekly", "monthly", "parent", "pinned")

    assert max(map(len, shown(snapshot(3, *reasons), width=width))) <= width


def test_a_torn_copy_is_marked() -> None:
    assert any("605328de (incomplete)" in one for one in shown(snapshot(2, is_complete=False)))


def test_progress_says_how_much_how_fast_and_how_long() -> None:
    found = Progress(what="sending x", done=30 << 20, total=90 << 20, per_s=float(10 << 20))

    assert progress_text(found) == "sending x, 30 MiB of 90 MiB, 10 MiB/s, 0:06 left"


def test_what_a_backup_did_is_told_and_what_it_would_do() -> None:
    done: ProgramResult = {
        "created": [{"path": "/home", "name": "N"}],
        "pruned": [{"path": "/home", "name": "O", "place": DISK}],
        "sent": [{"path": "/home", "name": "N", "parent": "O", "bytes": 2048}],
        "target": {"name": DISK, "state": "absent"},
        "errors": [{"message": "/srv does not exist", "fix": "mount it"}],
    }
    lines = backup_lines("rig", done, 100, dry_run=False)

    assert lines[:3] == [
        "rig: /home: N taken",
        "rig: /home: O removed (605328de)",
        "rig: /home: N sent as changes since O: 2.0 KiB",
    ]
    assert lines[-2:] == ["Error: rig: /srv does not exist", "    fix: mount it"]
    assert "would be taken" in backup_lines("rig", done, 100, dry_run=True)[0]
    assert backup_lines("rig", {}, 100, dry_run=False) == ["rig: nothing to do"]
    assert backup_lines("rig", {"held": ["3 more wait"]}, 100, dry_run=False) == [
        "rig: 3 more wait"
    ]


def test_a_restore_names_where_it_is_what_it_is_from_and_what_is_left_to_do() -> None:
    done: ProgramResult = {
        "restored_to": "/home", "at": "2026-11-25T06:00:01Z", "place": "local", "bytes": 5,
        "aside": "/old", "to_do": "umount /home && mount /home",
    }  # fmt: skip

    assert restored_lines("rig", done, 100, dry_run=False) == [
        "rig: /home is restored from 2026-11-25 06:00:01 UTC (local, 5 B)",
        "    the one before is at /old",
        "    to do: umount /home && mount /home",
    ]


def test_a_restore_from_a_backup_says_so() -> None:
    done: ProgramResult = {
        "restored_to": "/a",
        "at": "2026-11-25T06:00:01Z",
        "place": "nas",
        "engine": "borg",
    }

    assert restored_lines("rig", done, 100, dry_run=True) == [
        "rig: /a would be restored from 2026-11-25 06:00:01 UTC (borg, nas)"
    ]


def test_what_was_put_beside_comes_with_the_command_that_puts_it_in_place() -> None:
    done: ProgramResult = {
        "path": "/my a", "restored_to": "/my a.restored", "snapshot": "S", "place": "local",
    }  # fmt: skip

    def lines(*, dry_run: bool, to: str = "/my a.restored") -> list[str]:
        found: ProgramResult = {**done, "restored_to": to}
        return restored_lines("rig", found, 40, dry_run=dry_run, is_beside=True)

    finish = "    To put it where it was: rigops restore rig '/my a' --at S --in-place"
    assert lines(dry_run=False)[-1] == finish
    assert finish not in lines(dry_run=True)
    assert not any("rigops restore" in one for one in lines(dry_run=False, to="/my a"))


def test_what_is_declared_and_not_set_up_is_not_called_undeclared() -> None:
    found = HostSnapshots(subvolumes=(), targets=(), foreign=(), raw={}, not_applied=("/", "/srv"))

    lines = snapshots_lines("rig", judge_snapshots(found), found, NOW, 80, verbose=False)

    assert judge_snapshots(found) == "warn"
    assert "  /, /srv: declared, and not set up on the host" in lines
    assert any("`rigops plan rig`" in one for one in lines)
    assert not any("none declared" in one for one in lines)


def test_an_engine_that_fails_is_an_error_below_the_others() -> None:
    failed = EngineFailure(engine="borg", message="locked by nas", fix="wait")
    found = HostSnapshots(subvolumes=(), targets=(), foreign=(), raw={}, failures=(failed,))

    lines = snapshots_lines("rig", "fail", found, NOW, 80, verbose=False)

    assert [line.strip() for line in lines[-2:]] == ["Error: borg: locked by nas", "fix: wait"]


def test_a_drill_says_what_it_compared_or_why_it_failed() -> None:
    assert drill_lines("rig", {"result": "ok", "files": 20}, 100) == [
        "rig: the drill passed: 20 files restored, and as they were backed up"
    ]
    older: ProgramResult = {"archive": "rig-20261101T060000Z", "result": "ok", "files": 40}
    assert drill_lines("rig", {"result": "ok", "files": 20, "older": older}, 100)[1:] == [
        "rig: of the older archive rig-20261101T060000Z 40 files can be read"
    ]
    older["result"] = "unfinished"
    assert drill_lines("rig", {"result": "ok", "files": 20, "older": older}, 100)[1:] == [
        "rig: the older archive rig-20261101T060000Z was not read in time, and is not judged"
    ]
    assert drill_lines("rig", {"result": "failed", "error": "/a differs", "fix": "x"}, 100) == [
        "Error: rig: the drill failed: /a differs",
        "    fix: x",
    ]


@pytest.mark.parametrize("result", ["ok", "failed"])
def test_a_drill_says_which_archive_it_made(result: str) -> None:
    done: ProgramResult = {"result": result, "files": 20, "archive": "rig-20261101T060000Z"}

    assert drill_lines("rig", done, 100)[0] == (
        "rig: made rig-20261101T060000Z for the drill; `keep` counts it as any other"
    )


def test_what_is_to_be_healed_is_named_with_the_command_that_does() -> None:
    assert heal_lines("rig", {"to_heal": ["a"], "healed": ["b"]}, 100) == [
        "rig: b: healed",
        "rig: a: to be healed",
        "    fix: `rigops backup rig --heal --yes` signs them",
    ]
    assert heal_lines("rig", {"to_heal": []}, 100) == ["rig: nothing is to be healed"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (200 << 20, "200 MiB"), (3 << 40, "3.0 TiB")],
)
def test_bytes_are_short(number: int, text: str) -> None:
    assert bytes_text(number) == text
