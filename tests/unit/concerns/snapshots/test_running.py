"""What runs in turn do with snapshots that are only names, here and at a target."""

from __future__ import annotations

import errno
import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, cast

import pytest

from rigops.backup.file_systems import FileSystem, NotedPath
from rigops.backup.host.errors import HostError
from rigops.backup.host.output import Output
from rigops.backup.host.snapshot_names import SnapshotName, parse_snapshot_name
from rigops.backup.host.snapshot_settings import SnapshotSettings
from rigops.backup.host.volumes import Source, Volume
from rigops.concerns.snapshots.host import running
from rigops.concerns.snapshots.host.place import SnapshotCopy
from rigops.concerns.snapshots.host.running import SnapshotRun, Wish
from rigops.concerns.snapshots.host.targets import Target
from rigops.concerns.snapshots.host.transfer import Sent
from rigops.hostside.shared.beneath import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rigops.backup.host.subvolumes import Subvolume
    from rigops.concerns.snapshots.host.chain import Transfer
    from rigops.concerns.snapshots.host.place import LocalPlace

NOW = datetime(2026, 11, 25, 6, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
DAY = 24 * HOUR
YEARS = 5 * 365 * DAY
DISK = "disk"


@dataclass
class FakePlace:
    name: str
    base: Path
    names: list[str] = field(default_factory=list)
    cannot_say: bool = False
    is_pulled: bool = False

    def path(self, folder: str, snapshot: str = "") -> Path:
        return self.base / folder / snapshot

    def copies(self, _: str) -> list[SnapshotCopy]:
        if self.cannot_say:
            raise HostError("something else answers")
        if self.is_pulled:
            raise OSError(errno.EIO, "Input/output error")
        return sorted(SnapshotCopy(one, f"u-{one}", f"o-{one}", True) for one in self.names)  # noqa: FBT003 - is_complete

    def delete(self, _: str, snapshot: str) -> None:
        self.names.remove(snapshot)

    def away(self, error: Exception) -> HostError | None:
        """Once it is pulled, nothing works there."""
        del error
        return HostError(f"{self.name} was disconnected") if self.is_pulled else None

    def clear(self) -> bool:
        return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        yield

    def sync(self) -> None: ...

    def room(self) -> tuple[int, int]:
        return 10, 10


@dataclass
class Rig:
    here: FakePlace
    there: FakePlace
    capture: pytest.CaptureFixture[str]
    state: dict[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    noted: list[str] = field(default_factory=list)
    is_absent: bool = False
    paths: tuple[str, ...] = ("/home",)
    errors: list[str] = field(default_factory=list)

    def run(self, now: datetime = NOW, kind: str = "timer", **wish: bool) -> dict[str, Any]:
        settings = SnapshotSettings("rig", self.paths, "2d", DISK)
        given = Wish(kind, **{"always": True, "sends": False, **wish})
        code = SnapshotRun(settings, given, Output(as_json=True), now).carry_out()
        lines = [json.loads(line) for line in self.capture.readouterr().out.splitlines()]
        self.errors = [one["error"]["message"] for one in lines if "error" in one]
        (result,) = [one["result"] for one in lines if "result" in one]
        return {**result, "code": code}

    def has_days(self, *ages: int) -> list[str]:
        names = [named(NOW - age * DAY) for age in ages]
        self.here.names, self.there.names = [*names], [*names]
        self.state = {"clock": {"newest": text(NOW - DAY)}}
        return sorted(names)

    def place(self, path: str, *, accepts_moved: bool) -> NotedPath | None:
        if path in self.elsewhere and not accepts_moved:
            raise HostError(f"{path} is on another file system", "mount it")
        return None if path in self.missing else NotedPath(path, FileSystem("btrfs", "/dev/x"))

    def find(self, path: str) -> Source:
        if path in self.missing:
            raise HostError(f"{path} does not exist", "mount it")
        volume = Volume("u", "/dev/x", "/top")
        return Source(path, Folder(path, 0), volume, cast("Subvolume", None), ())


def named(at: datetime, kind: str = "timer") -> str:
    return str(SnapshotName(at, kind))


def text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Rig:
    found = Rig(FakePlace("local", tmp_path / "a"), FakePlace(DISK, tmp_path / "b"), capsys)

    def write(state: dict[str, Any], now: datetime) -> None:
        found.state = {**state, "at": text(now)}

    def take(_: Source, kind: str, now: datetime) -> str:
        found.here.names.append(named(now, kind))
        return found.here.names[-1]

    def target(_: SnapshotSettings) -> Target:
        if found.is_absent:
            return Target(DISK, "absent")
        return Target(DISK, "present", cast("LocalPlace", found.there))

    for name, fake in {
        "read_snapshots_state": lambda: found.state,
        "write_snapshots_state": write,
        "find_place": found.place,
        "note_places": found.noted.extend,
        "find_source": found.find,
        "local_store": lambda _: found.here,
        "open_target": target,
        "create_snapshot": take,
        "clear_incomplete": lambda *_: None,
        "find_unsynchronized": lambda: "",
    }.items():
        monkeypatch.setattr(running, name, fake)
    return found


def test_a_target_that_is_disconnected_meanwhile_is_said_once_and_is_no_fault_of_a_subvolume(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.paths = ("/home", "/srv")
    pull = lambda *_: setattr(rig.there, "is_pulled", True)  # noqa: E731 - one line
    monkeypatch.setattr(running, "clear_incomplete", pull)

    found = rig.run()

    assert (found["code"], found["target"]["error"]) == (1, "disk was disconnected")
    assert [one["error"] for one in rig.state["subvolumes"].values()] == [None, None]
    assert rig.errors == ["disk was disconnected"]


def test_a_send_that_lasts_holds_up_no_snapshot_here(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.has_days(1)
    hours = iter(range(1, 27))

    def send(transfer: Transfer, *_: object, meanwhile: Callable[[], None]) -> Sent:
        for hour in hours:
            monkeypatch.setattr(running, "utc_now", lambda at=hour: NOW + at * HOUR)
            meanwhile()
        states.append(rig.state["subvolumes"]["/home"]["newest_at"])
        return Sent(transfer.name, "", 1, 1.0)

    states: list[str] = []
    monkeypatch.setattr(running, "send_snapshot", send)

    found = rig.run(sends=True)

    first, second = (parse_snapshot_name(one["name"]) for one in found["created"])
    assert first
    assert second
    assert first.at == NOW < second.at <= NOW + DAY
    assert (found["code"], states) == (0, [text(second.at)])


def test_while_a_subvolume_is_missing_nothing_of_any_goes_here_or_there(rig: Rig) -> None:
    before = rig.has_days(*range(1, 10))
    rig.paths, rig.missing = ("/home", "/data"), ("/data",)

    run = rig.run(prunes_most=True)

    assert (run["code"], run["pruned"]) == (1, [])
    assert (
        run["held"]
        == rig.state["held"]
        == ["nothing is removed while a declared path is missing: /data"]
    )
    assert set(before) <= set(rig.here.names) & set(rig.there.names)


def test_a_subvolume_on_another_file_system_is_not_taken_until_a_person_accepts_it(
    rig: Rig,
) -> None:
    before = rig.has_days(*range(1, 10))
    rig.paths, rig.elsewhere = ("/home", "/data"), ("/data",)

    refused = rig.run(prunes_most=True)

    assert (refused["code"], refused["pruned"]) == (1, [])
    assert [one["path"] for one in refused["created"]] == ["/home"]
    assert set(before) <= set(rig.here.names) & set(rig.there.names)
    accepted = rig.run(NOW + DAY, accepts_moved=True)
    assert accepted["code"] == 0
    assert rig.noted == ["/home", "/home", "/data"]


def test_one_run_ahead_removes_nothing_and_changes_no_later_one(rig: Rig) -> None:
    before = rig.has_days(1, 2, 3)

    ahead = rig.run(NOW + YEARS, prunes_most=True)
    rig.there.names.append(named(NOW + YEARS))
    right = rig.run(NOW)

    assert (ahead["pruned"], right["code"], right["held"]) == ([], 0, [])
    assert "far beyond" in ahead["held"][0]
    assert {one["name"] for one in right["pruned"]} == {before[0]}  # as if it had not been
    assert named(NOW + YEARS) in rig.here.names
    assert rig.state["target"]["newest_at"] == {"/home": text(NOW - DAY)}
    assert rig.state["subvolumes"]["/home"]["newest_at"] == text(NOW)


def test_what_a_run_ahead_noted_of_a_disk_is_forgotten_while_it_is_absent(rig: Rig) -> None:
    rig.has_days(1)
    rig.run(NOW + YEARS)
    assert rig.state["target"]["seen_at"] == text(NOW + YEARS)
    rig.is_absent = True

    for age in (0, 9):
        rig.run(NOW + age * DAY)

    assert rig.state["target"]["seen_at"] == text(NOW)
    assert rig.state["target"]["newest_at"] == {"/home": text(NOW - DAY)}


def test_half_goes_in_a_run_at_each_place_and_all_with_consent(rig: Rig) -> None:
    before = rig.has_days(*range(1, 11))

    run = rig.run()

    gone = [(one["place"], one["name"]) for one in run["pruned"]]
    assert gone == [(place, name) for place in ("local", DISK) for name in before[:5]]
    assert ["3 more copies go" in one for one in run["held"]] == [True, True]
    assert (rig.run(prunes_most=True)["held"], rig.state["held"]) == ([], [])
    assert not {*before[:8]} & {*rig.here.names, *rig.there.names}


def test_a_target_that_cannot_say_what_it_has_fails_and_holds_up_no_pruning_here(rig: Rig) -> None:
    before = rig.has_days(*range(1, 11))
    rig.there.cannot_say = True

    run = rig.run()

    assert [(one["place"], one["name"]) for one in run["pruned"]] == [
        ("local", name) for name in before[:5]
    ]
    assert (run["code"], run["target"]["state"]) == (1, "failed")
    assert sorted(rig.there.names) == before


def test_an_old_version_s_state_or_else_the_snapshots_are_what_is_known(rig: Rig) -> None:
    for state, days in (({"at": text(NOW - 100 * DAY)}, (1, 2, 3, 4)), ({}, (100, 101, 102))):
        rig.has_days(*days)
        rig.state = state

        assert "far beyond" in rig.run(kind="")["held"][0]
        assert rig.run(NOW + DAY, kind="")["pruned"] != []
