"""What runs in turn do with a repository that is only a list of names."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from rigops.backup.file_systems import FileSystem, NotedPath
from rigops.backup.host.output import Output
from rigops.concerns.borg.host import backing_up
from rigops.concerns.borg.host.backing_up import BorgRun
from rigops.concerns.borg.host.borg_meanings import BorgError, BorgMessage
from rigops.concerns.borg.host.borg_process import BorgAnswer
from rigops.concerns.borg.host.borg_settings import BorgSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = datetime(2026, 11, 25, 6, tzinfo=timezone.utc)
DAY = timedelta(days=1)
YEARS = 5 * 365 * DAY
HOME, ETC = "/data/home", "/etc"


class KilledError(BaseException):
    pass


@dataclass
class FakeBorg:
    """`dies_at`: the command that ends the run before it begins. `lost_in`: the server is."""

    settings: BorgSettings
    names: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    dies_at: str = ""
    lost_in: str = ""
    version: str = "1.2.4"

    @property
    def repository(self) -> str:
        return self.settings.repository

    def ask(self, *words: str, **_: Any) -> BorgAnswer:
        what = words[0]
        if what == self.dies_at:
            raise KilledError
        if what == self.lost_in:
            lost = BorgMessage("ERROR", "ConnectionClosed", "Connection closed by remote host")
            raise BorgError(self.repository, [lost], 2)
        self.asked.append(what)
        if what == "create":
            place = next(word for word in words if "::" in word)
            self.names.append(place.partition("::")[2])
        if what == "delete":
            self.names = [name for name in self.names if name not in words]
        listed = {"repository": {"id": "1"}, "archives": [{"name": name} for name in self.names]}
        return BorgAnswer(json.dumps(listed if what == "list" else {}), ())


@dataclass
class Rig:
    borg: FakeBorg
    patch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]
    state: dict[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    noted: dict[str, NotedPath] = field(default_factory=dict)
    now: datetime = NOW

    def run(self, now: datetime = NOW, **consents: bool) -> dict[str, Any]:
        """Its result, with the code."""
        self.now = now
        given = {"accepts_lost": False, "prunes_most": False, "accepts_moved": False, **consents}
        run = BorgRun(self.borg, Output(as_json=True), **given)  # type: ignore[arg-type]  # named by each test
        code = run.carry_out(by_timer=True)
        lines = [json.loads(line) for line in self.capture.readouterr().out.splitlines()]
        (result,) = [one["result"] for one in lines if "result" in one]
        return {**result, "code": code}

    def pruned(self, now: datetime = NOW, **consents: bool) -> list[str]:
        return [one["name"] for one in self.run(now, **consents)["pruned"]]

    @contextmanager
    def frozen(self, paths: tuple[str, ...], *_: Any, **__: Any) -> Iterator[dict[str, NotedPath]]:
        disk = FileSystem("ext4", "/dev/x")
        yield {path: NotedPath(path, disk) for path in paths if path not in self.missing}


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rig:
    settings = BorgSettings("rig", "nas:/b", (HOME, ETC), keep="2d", identity=False)
    found = Rig(FakeBorg(settings), monkeypatch, capsys)

    def write(state: dict[str, Any]) -> None:
        found.state = json.loads(json.dumps(state))

    def known(_: str) -> dict[str, Any]:
        repository: dict[str, Any] = found.state.get("repository") or {}
        return repository

    for name, fake in {
        "read_borg_state": lambda: dict(found.state),
        "write_borg_state": write,
        "known_repository": known,
        "utc_now": lambda: found.now,
        "frozen_sources": found.frozen,
        "note_places": found.noted.update,
        "find_unsynchronized": lambda: "",
        "checkpoint_excludes": lambda *_: (0, []),
        "check_signatures": lambda *_: None,
    }.items():
        monkeypatch.setattr(backing_up, name, fake)
    monkeypatch.setattr("rigops.concerns.borg.host.repository.known_repository", known)
    return found


def named(at: datetime) -> str:
    return f"rig-{at:%Y%m%dT%H%M%SZ}"


def has_days(rig: Rig, *ages: int) -> list[str]:
    rig.borg.names = [named(NOW - age * DAY) for age in ages]
    rig.state = {"clock": {"newest": f"{NOW - DAY:%Y-%m-%dT%H:%M:%SZ}"}}
    return sorted(rig.borg.names)


def test_a_run_without_a_path_makes_a_partial_archive_and_removes_nothing(rig: Rig) -> None:
    before = has_days(rig, 1, 2, 3, 4, 5)
    rig.missing = (HOME,)

    runs = [rig.run(NOW + n * DAY, prunes_most=True) for n in range(3)]

    for n, run in enumerate(runs):
        assert (run["code"], run["pruned"]) == (1, [])
        assert run["created"][0]["name"] == f"{named(NOW + n * DAY)}.partial"
        assert run["held"] == [f"nothing is removed while a declared path is missing: {HOME}"]
    assert set(before) < set(rig.borg.names)
    assert rig.state["held"] == runs[-1]["held"]
    assert rig.state["newest_at"] == "2026-11-24T06:00:00Z"  # of a whole one
    assert list(rig.noted) == [ETC]

    rig.missing = ()
    assert rig.run(NOW + 3 * DAY, prunes_most=True)["code"] == 0
    assert named(NOW - DAY) not in rig.borg.names
    assert f"{named(NOW + 2 * DAY)}.partial" in rig.borg.names


def test_one_run_ahead_removes_nothing_and_changes_no_later_one(rig: Rig) -> None:
    before = has_days(rig, 1, 2, 3, 4, 5)
    rig.state["last_check"] = {"at": "2026-11-20T06:00:00Z", "result": "ok"}

    ahead = rig.run(NOW + YEARS, prunes_most=True)
    assert "far beyond" in ahead["held"][0]
    rig.borg.asked.clear()
    right = rig.run(NOW)

    assert (ahead["pruned"], right["held"], right["code"]) == ([], [], 0)
    assert {one["name"] for one in right["pruned"]} == set(before[:3])  # of seven
    assert named(NOW + YEARS) in rig.borg.names
    assert rig.state["newest_at"] == "2026-11-25T06:00:00Z"
    assert {"check", "compact"} <= set(rig.borg.asked)  # though they were done in the future


def test_a_clock_that_is_not_synchronized_removes_nothing(rig: Rig) -> None:
    has_days(rig, 1, 2, 3, 4, 5)
    rig.patch.setattr(backing_up, "find_unsynchronized", lambda: "chronyd")

    assert rig.run()["held"] == ["nothing is removed: chronyd has not synchronized the clock"]


def test_without_a_state_the_newest_archive_is_what_is_known(rig: Rig) -> None:
    has_days(rig, 100, 101, 102)
    rig.state = {}

    first, later = rig.run(), rig.run(NOW + DAY)

    assert (len(first["pruned"]), len(later["pruned"])) == (0, 2)
    assert "far beyond" in first["held"][0]


def test_half_goes_in_a_run_and_all_with_consent(rig: Rig) -> None:
    before = has_days(rig, *range(1, 10))

    run = rig.run()

    assert [one["name"] for one in run["pruned"]] == before[:5]  # of ten
    assert "2 more copies go at the next runs" in run["held"][0]
    has_days(rig, *range(1, 10))
    assert rig.pruned(prunes_most=True) == before[:7]
    assert rig.state["held"] == []


@pytest.mark.parametrize("dies_at", ["compact", "delete"])
def test_killed_anywhere_after_it_pruned_the_next_run_misses_none(rig: Rig, dies_at: str) -> None:
    has_days(rig, 3, 4)
    assert rig.run(NOW - DAY)["code"] == 0  # what it saw is noted
    rig.borg.dies_at = dies_at

    with pytest.raises(KilledError):
        rig.run(NOW + 9 * DAY, prunes_most=True)
    if dies_at == "delete":  # and borg itself came to its end
        rig.borg.names = rig.borg.names[-1:]
    rig.borg.dies_at = ""
    rig.borg.asked.clear()
    following = rig.run(NOW + 10 * DAY)

    assert following["code"] == 0
    assert "compact" in rig.borg.asked
    rig.borg.names.remove(following["created"][0]["name"])
    assert rig.run(NOW + 10 * DAY)["code"] == 1  # that one somebody removed


def test_a_server_that_is_lost_in_a_check_has_no_damage_and_is_checked_at_the_next_run(
    rig: Rig,
) -> None:
    rig.borg.lost_in = "check"
    lost = rig.run()
    known = dict(rig.state)
    rig.borg.lost_in = ""

    run = rig.run(NOW + DAY)

    assert (lost["code"], known["repository"]["state"]) == (1, "unreachable")
    assert known.get("last_check") is None
    assert (run["code"], rig.state["last_check"]["result"]) == (0, "ok")
