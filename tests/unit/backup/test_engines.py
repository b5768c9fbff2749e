"""Several engines as one."""

from __future__ import annotations

from dataclasses import dataclass, field
from unittest.mock import Mock

import pytest

from rigops.backup.answer_shape import ProgramResult
from rigops.backup.borg import ACCEPT_LOST, BorgEngine
from rigops.backup.borg_lines import read_backup
from rigops.backup.btrfs import BtrfsEngine
from rigops.backup.engine import (
    MOVED,
    PRUNE_MOST,
    BackupError,
    HostSnapshots,
    RestoreRequest,
    StorageEngine,
    judge_snapshots,
)
from rigops.backup.engines import Engines
from rigops.backup.host_program import HostProgram, restore_words

REQUEST = RestoreRequest(path="/home/me/thesis")


@dataclass
class Fake:
    """`states`: when the path was as it was then; none: it has no such path."""

    name: str
    at: str = ""
    done: ProgramResult = field(default_factory=ProgramResult)
    asked: list[tuple[RestoreRequest, bool]] = field(default_factory=list)

    def list(self, *, sizes: bool) -> HostSnapshots:
        self._demand()
        return HostSnapshots(subvolumes=(), targets=(), foreign=(), raw={self.name: self.at})

    def backup(self, *, dry_run: bool) -> ProgramResult:
        self._demand()
        return self.done

    def restore(self, request: RestoreRequest, *, dry_run: bool) -> ProgramResult:
        self._demand()
        self.asked.append((request, dry_run))
        return {"at": self.at, "snapshot": f"{self.name}-name", "place": f"{self.name}-place"}

    def drill(self) -> ProgramResult:
        if self.name == "btrfs":
            raise BackupError("rig", "no drill")
        return {"result": "ok"}

    def _demand(self) -> None:
        if not self.at:
            raise BackupError("rig", f"{self.name} has it not", f"ask {self.name}")


def both(btrfs: str, borg: str) -> tuple[Fake, Fake, Engines]:
    first, second = Fake("btrfs", btrfs), Fake("borg", borg)
    every: tuple[StorageEngine, ...] = (first, second)
    return first, second, Engines(every)


@pytest.mark.parametrize(
    ("btrfs", "borg", "serves"),
    [
        ("2026-11-25T06:00:00Z", "2026-11-24T06:00:00Z", "btrfs"),
        ("2026-11-24T06:00:00Z", "2026-11-25T06:00:00Z", "borg"),
        ("2026-11-24T06:00:00Z", "2026-11-24T06:00:00Z", "btrfs"),
        ("", "2026-11-24T06:00:00Z", "borg"),
        ("2026-11-24T06:00:00Z", "", "btrfs"),
    ],
)
def test_whichever_has_the_newest_state_serves_it_and_says_so(
    btrfs: str, borg: str, serves: str
) -> None:
    first, second, engines = both(btrfs, borg)

    done = engines.restore(REQUEST, dry_run=False)

    assert done["engine"] == serves
    carried_out = [one for fake in (first, second) for one in fake.asked if not one[1]]
    ((request, _),) = carried_out
    assert (request.at, request.place) == (f"{serves}-name", f"{serves}-place")


def test_a_dry_run_carries_nothing_out() -> None:
    first, second, engines = both("2026-11-24T06:00:00Z", "2026-11-25T06:00:00Z")

    assert engines.restore(REQUEST, dry_run=True)["engine"] == "borg"
    assert [dry_run for fake in (first, second) for _, dry_run in fake.asked] == [True, True]


def test_where_none_has_it_each_says_why() -> None:
    _, _, engines = both("", "")

    with pytest.raises(BackupError) as refused:
        engines.restore(REQUEST, dry_run=False)

    assert refused.value.message == "btrfs: btrfs has it not; borg: borg has it not"
    assert refused.value.fix == "ask btrfs; ask borg"


def test_an_engine_that_fails_hides_nothing_of_the_other() -> None:
    _, _, engines = both("2026-11-24T06:00:00Z", "")

    found = engines.list(sizes=False)

    assert [one.engine for one in found.failures] == ["borg"]
    assert judge_snapshots(found) == "fail"
    assert found.raw["failures"] == [
        {"engine": "borg", "message": "borg has it not", "fix": "ask borg"}
    ]


def test_a_backup_is_what_each_did_and_an_error_of_one_is_no_success() -> None:
    first, second, engines = both("now", "now")
    first.done = {"created": [{"name": "a"}], "target": {"name": "x"}}
    second.done = {"created": [{"name": "b"}], "errors": [{"message": "m", "fix": ""}]}

    done = engines.backup(dry_run=False)

    assert [one["name"] for one in done["created"]] == ["a", "b"]
    assert (done["errors"], done["target"]) == (second.done["errors"], {"name": "x"})
    second.at = ""
    assert engines.backup(dry_run=False)["errors"] == [
        {"message": "borg: borg has it not", "fix": "ask borg"}
    ]


def test_the_drill_is_that_of_the_engine_that_has_one() -> None:
    _, _, engines = both("now", "now")

    assert engines.drill() == {"result": "ok"}
    with pytest.raises(BackupError):
        Engines((Fake("btrfs"),)).drill()


def test_only_borg_has_something_to_heal() -> None:
    with pytest.raises(BackupError) as refused:
        Engines((Fake("btrfs", "now"),), "rig").heal(confirmed=True)

    assert refused.value.fix == "declare borg"


def test_one_engine_answers_as_it_does_alone() -> None:
    alone = Fake("btrfs", "2026-11-24T06:00:00Z", {"created": []})

    assert Engines((alone,)).backup(dry_run=False) is alone.done
    Engines((alone,)).restore(REQUEST, dry_run=False)
    assert alone.asked == [(REQUEST, False)]


def test_rows_of_a_backup_say_where_they_are_of() -> None:
    pruned: list[ProgramResult] = [{"name": "b", "place": "nas"}]
    found = read_backup({"created": [{"name": "a"}], "pruned": pruned, "held": ["x"]})

    assert found["created"] == [{"path": "borg", "place": "borg", "name": "a"}]
    assert found["pruned"] == [{"path": "borg", "place": "nas", "name": "b"}]
    assert found["held"] == ["x"]


def test_a_request_is_words_of_the_program() -> None:
    request = RestoreRequest(path="/a", at="now", place="nas", in_place=True)

    assert restore_words(request) == [
        "--path", "/a", "--at", "now", "--place", "nas", "--in-place",
    ]  # fmt: skip


@pytest.mark.parametrize("dry_run", [True, False])
def test_consents_go_to_each_engine_that_asks_for_them_and_what_is_pruned_into_a_dry_run(
    *, dry_run: bool
) -> None:
    consents = frozenset({PRUNE_MOST, ACCEPT_LOST, MOVED})
    asked = []
    for kind in (BtrfsEngine, BorgEngine):
        program = Mock(spec=HostProgram, host="rig", connection=Mock())
        program.ask.return_value = {}
        program.connection.run.return_value.stdout = '{"repository": {"id": "1", "state": "ok"}}'
        kind(program, consents).backup(dry_run=dry_run)
        asked.append(program.ask.call_args.args)

    shown = ("--dry-run",) if dry_run else ()
    accepted = (MOVED, PRUNE_MOST) if dry_run else (ACCEPT_LOST, MOVED, PRUNE_MOST)
    assert asked == [
        ("snapshots", "backup", MOVED, PRUNE_MOST, *shown),
        ("borg", "backup", *accepted, *shown),
    ]


def test_what_either_engine_holds_back_is_said() -> None:
    first, second, engines = both("x", "y")
    first.done, second.done = {"held": ["one"]}, {"held": ["two"]}

    assert engines.backup(dry_run=False)["held"] == ["one", "two"]
