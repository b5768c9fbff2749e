from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from rigops.errors import RigopsError
from rigops.record import Pair, journal
from rigops.record.journal import Preflight, Run, Value
from tests.unit.record.damages import DAMAGES

RUN = Run(
    host="rig1",
    at="2026-01-31T18:00:00Z",
    inventory_digest="c0ffee",
    outcome="changed",
    seconds=41.5,
    versions={"rigops": "0.1.0", "driver": "535.54.03"},
    preflight=Preflight("ok", "L1", (Pair("0000:0a:00.0", "0000:0b:00.0", "ok", 12.5),)),
    command="apply",
    changes=("driver 545.29.06 -> 535.54.03",),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "rigops" / "journal.jsonl"


def test_what_is_appended_is_read_back(path: Path) -> None:
    without_preflight = replace(RUN, at="2026-02-01T00:00:00Z", preflight=None)
    journal.append(RUN, path)
    journal.append(without_preflight, path)
    assert journal.read(path) == journal.History((without_preflight, RUN), unreadable=0)


def test_an_absent_journal_is_empty(path: Path) -> None:
    assert journal.read(path) == journal.History((), unreadable=0)


def test_two_runs_that_began_in_the_same_second_are_two_beside_what_the_host_has() -> None:
    again = replace(RUN, outcome="converged", changes=())
    of_another_machine = replace(RUN, at="2026-01-30T18:00:00Z")

    found = journal.with_others((again, RUN), (replace(RUN, host="old"), of_another_machine))

    assert found == (again, RUN, of_another_machine)


def test_the_end_of_a_run_takes_the_place_of_its_beginning() -> None:
    begun = replace(RUN, run="one", outcome="begun")
    lines = [json.dumps(one.as_json()).encode() for one in (begun, RUN, replace(RUN, run="one"))]

    assert journal.parse(lines).runs == (replace(RUN, run="one"), RUN)
    interrupted = replace(RUN, run="one", outcome="interrupted")
    assert journal.with_others([interrupted], journal.parse(lines[:1]).runs) == (interrupted,)


def test_a_secret_that_a_command_printed_does_not_enter() -> None:
    run = replace(
        RUN,
        reason="curl -u me:hunter2 failed",
        values=(Value(concern="base", subject="x", after="password=hunter2"),),
    )
    assert "hunter2" not in json.dumps(run.as_json())
    assert replace(RUN, reason="no space left").as_json()["reason"] == "no space left"


def test_only_the_user_may_look(path: Path) -> None:
    journal.append(RUN, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_runs_come_newest_first_also_where_lines_are_out_of_order(path: Path) -> None:
    for at in ("2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-01T00:00:00Z"):
        journal.append(replace(RUN, at=at), path)
    assert [run.at[:10] for run in journal.read(path).runs] == [
        "2026-01-03",
        "2026-01-02",
        "2026-01-01",
    ]


def test_of_runs_at_the_same_time_the_last_line_is_the_newest(path: Path) -> None:
    for host in ("rig1", "rig2"):
        journal.append(replace(RUN, host=host), path)
    assert [run.host for run in journal.read(path).runs] == ["rig2", "rig1"]


def test_one_host_can_be_asked_for(path: Path) -> None:
    for host in ("rig1", "rig2", "rig1"):
        journal.append(replace(RUN, host=host), path)
    assert [run.host for run in journal.read(path, host="rig1").runs] == ["rig1", "rig1"]


def test_lines_that_cannot_be_read_are_counted_and_skipped(path: Path) -> None:
    journal.append(RUN, path)
    with path.open("ab") as file:
        file.write(b'\xff\xfe\n[]\n{"host": "rig1"}\n' + b"[" * 100_000 + b"\n\n")
    journal.append(RUN, path)
    assert journal.read(path) == journal.History((RUN, RUN), unreadable=4)


def test_a_line_that_was_cut_short_costs_only_itself(path: Path) -> None:
    journal.append(RUN, path)
    with path.open("ab") as file:
        file.write(json.dumps(RUN.as_json())[:40].encode())
    journal.append(RUN, path)
    assert journal.read(path) == journal.History((RUN, RUN), unreadable=1)


LINES = {"cut": (1, 1), "emptied": (0, 0), "nul": (0, 1), "garbage": (0, 10), "huge": (0, 1)}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_journal_costs_the_damaged_lines_or_is_an_error_with_a_fix(
    path: Path, damage: str
) -> None:
    for _ in range(2):
        journal.append(RUN, path)
    DAMAGES[damage](path)

    if damage in LINES:
        found = journal.read(path)
        assert (len(found.runs), found.unreadable) == LINES[damage]
        return
    for use in (lambda: journal.append(RUN, path), lambda: journal.read(path)):
        with pytest.raises(RigopsError, match="journal") as raised:
            use()
        (problem,) = raised.value.problems
        assert problem.file == str(path)
        assert "move it away" in problem.fix


def _append_many(path: Path, host: str) -> None:
    for _ in range(50):
        journal.append(replace(RUN, host=host), path)


def test_processes_that_write_at_once_do_not_mix_their_lines(path: Path) -> None:
    fresh = get_context("spawn")
    writers = [fresh.Process(target=_append_many, args=(path, f"rig{n}")) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    history = journal.read(path)
    assert (len(history.runs), history.unreadable) == (150, 0)


def test_a_journal_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    with pytest.raises(RigopsError, match="cannot write the run of rig1"):
        journal.append(RUN, tmp_path / "state" / "journal.jsonl")


def test_a_full_disk_is_said_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda _descriptor, data: len(data) - 1)
    with pytest.raises(RigopsError, match="incomplete write"):
        journal.append(RUN, path)


@pytest.mark.parametrize(
    ("state", "folder"),
    [("/state", "/state"), ("", "/home/ada/.local/state"), ("relative", "/home/ada/.local/state")],
)
def test_the_journal_stands_in_the_state_directory(
    monkeypatch: pytest.MonkeyPatch, state: str, folder: str
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("XDG_STATE_HOME", state)

    assert journal.default_path() == Path(folder, "rigops/journal.jsonl")


def test_the_default_journal_is_used_where_none_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    journal.append(RUN)
    assert journal.read().runs == (RUN,)
    assert (tmp_path / "rigops" / "journal.jsonl").is_file()
