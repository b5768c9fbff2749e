"""Which engines of a host a command works with."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rigops.cli.terminal import Terminal
from rigops.hosts import access
from rigops.hosts.access import Chosen, HostAccess
from rigops.hosts.engines import EngineOptions, HostAnswer, ask_engines
from rigops.record import journal
from rigops.transport import Result, Target
from rigops.transport.result import ScriptResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rigops.backup.engines import Engines
    from tests.unit.cli.conftest import Rigops


class Connection:
    """To a host with what is `found`, whose program answers with this."""

    def __init__(self, found: str, answer: object = None) -> None:
        self.lines: list[str] = []  # of its journal
        self._found = found
        self._answer = json.dumps({"result": answer}).encode()

    def run(self, argv: Sequence[str], **_options: object) -> Result:
        self.lines += [word for word in argv if word.startswith("{")]
        return Result(exit_code=0, stdout=self._found.encode(), stderr=b"")

    def run_script(
        self, _script: object, *, on_line: Callable[[bytes], None], **_options: Any
    ) -> ScriptResult:
        on_line(self._answer)
        return ScriptResult(
            exit_code=0, stdout=b"", stderr=b"", started=True, complete=True,
            login_noise=b"", login_seconds=0.0,
        )  # fmt: skip


def ask(monkeypatch: pytest.MonkeyPatch, found: str, engine: str = "") -> HostAnswer:
    @contextmanager
    def connect(_target: Target, **_options: object) -> Iterator[Connection]:
        yield Connection(found)

    def work(host: Chosen, engines: Engines) -> HostAnswer:
        return HostAnswer(host=host.name, status="ok", value=[one.name for one in engines.every])

    monkeypatch.setattr(access, "connect", connect)
    options = EngineOptions(access=HostAccess(), engine=engine)
    rig = Chosen("rig", Target(name="rig"), None)
    (answer,) = ask_engines([rig], options, "asking", work, Terminal())
    return answer


@pytest.mark.parametrize(
    ("found", "engine", "names"),
    [
        ("", "", ["btrfs"]),
        ("snapshots\n", "", ["btrfs"]),
        ("borg\n", "", ["borg"]),
        ("snapshots\nborg\n", "", ["btrfs", "borg"]),
        ("snapshots\nborg\n", "borg", ["borg"]),
        ("snapshots\nborgmatic.service\n", "", ["btrfs"]),
        ("borgmatic.service\n", "btrfs", ["btrfs"]),
    ],
)
def test_what_a_host_has_is_asked_and_what_was_named_alone(
    monkeypatch: pytest.MonkeyPatch, found: str, engine: str, names: list[str]
) -> None:
    assert ask(monkeypatch, found, engine).value == names


@pytest.mark.parametrize(
    ("found", "engine"),
    [("borgmatic.timer\n", ""), ("snapshots\nborgmatic.timer\n", "borg")],
)
def test_backups_that_are_only_watched_are_left_to_the_unit_that_makes_them(
    monkeypatch: pytest.MonkeyPatch, found: str, engine: str
) -> None:
    answer = ask(monkeypatch, found, engine)

    assert answer.status == "fail"
    assert answer.error is not None
    assert answer.error.message == (
        "backups are made by borgmatic.timer; rigops only watches their age"
    )
    assert "`systemctl start borgmatic.service`" in answer.error.fix


def test_a_host_that_answers_in_a_wrong_shape_takes_no_other_hosts_result(
    rigops: Rigops, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {
        "bad": {"created": 5, "pruned": [], "sent": [], "target": None},
        "good": {
            "created": [{"path": "/home", "name": "20261127T000000Z-manual"}],
            "pruned": [], "sent": [], "target": None,
        },
    }  # fmt: skip

    @contextmanager
    def connect(target: Target, **_options: object) -> Iterator[Connection]:
        yield Connection("snapshots", answers[target.name])

    monkeypatch.setattr(access, "connect", connect)
    Path("inventory.py").write_text('hosts = ["bad", "good"]\n')

    said = rigops("backup", "bad", "good", "-i", "inventory.py")

    assert said.code == 1
    assert "20261127T000000Z-manual" in said.out
    assert "bad: the backup program on bad gave an answer that cannot be read" in said.out
    assert "TypeError" not in said.out + said.err


@pytest.mark.parametrize(
    ("found", "listed", "missing"),
    [
        ("", [], ["/", "/mnt/backup"]),
        ("snapshots\nborg\n", ["/"], []),
        ("snapshots\n", ["/"], ["/mnt/backup"]),
        ("borg\n", ["/mnt/backup"], ["/"]),
    ],
)
def test_what_is_declared_and_not_set_up_is_named_with_what_sets_it_up(
    rigops: Rigops,
    monkeypatch: pytest.MonkeyPatch,
    found: str,
    listed: list[str],
    missing: list[str],
) -> None:
    row: dict[str, Any] = {"nested": [], "error": None, "snapshots": []}
    rows = [{**row, "path": one} for one in listed]

    @contextmanager
    def connect(_target: Target, **_options: object) -> Iterator[Connection]:
        yield Connection(found, {"subvolumes": rows, "targets": [], "foreign": []})

    monkeypatch.setattr(access, "connect", connect)
    borg = {"repository": "/mnt/backup", "paths": ["/home"], "passphrase_command": "pass show rig"}
    data = {"snapshots": {"subvolumes": ["/"]}, "borg": borg}
    Path("inventory.py").write_text(f'hosts = [("rig", {data!r})]\n')

    said = rigops("snapshots", "rig")
    (host,) = rigops("snapshots", "rig", "--json").json()["hosts"]

    assert (host["not_applied"], host["status"]) == (missing, "warn" if missing else "ok")
    text = f"{', '.join(missing)}: declared, and not set up on the host"
    assert (text in said.out) == bool(missing)
    assert "none declared" not in said.out


@pytest.mark.parametrize(
    ("words", "command", "done"),
    [
        (("backup", "rig"), "backup", {"created": [{"path": "/home", "name": "20261127T0Z"}],
                                       "pruned": [], "sent": [], "target": None}),
        (("restore", "rig", "/home/me"), "restore", {
            "restored_to": "/home/me.restored-1", "engine": "btrfs", "place": "local",
            "name": "20261127T0Z", "at": "2026-11-27T00:00:00Z", "kind": "directory"}),
    ],
)  # fmt: skip
def test_what_a_person_ran_is_in_the_journals_of_both_machines(
    rigops: Rigops,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    command: str,
    done: object,
) -> None:
    host = Connection("snapshots", done)

    @contextmanager
    def connect(_target: Target, **_options: object) -> Iterator[Connection]:
        yield host

    monkeypatch.setattr(access, "connect", connect)
    Path("inventory.py").write_text('hosts = ["rig", "other"]\n')
    before = journal.read(host="rig").runs

    said = rigops(*words, "-i", "inventory.py")
    rigops(*words, "-i", "inventory.py", "--dry-run")

    assert said.code == 0, said.out + said.err
    run, *others = journal.read(host="rig").runs
    assert tuple(others) == before
    assert [json.loads(line) for line in host.lines] == [run.as_json()]
    assert (run.command, run.outcome, run.who) == (command, "ok", journal.who())
    assert "20261127T0Z" in run.changes[0]
