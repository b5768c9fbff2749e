"""What was done is reported, whatever of it cannot be written down on this machine."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rigops.cli.apply_common import conclude
from rigops.converge.flow import Ending
from rigops.converge.result import HostResult
from rigops.errors import RigopsError
from rigops.hosts import access
from rigops.record import journal, lockfile
from rigops.record.journal import Run
from tests import version_0_1
from tests.unit.cli.test_doctor import Rig
from tests.unit.cli.test_host_drivers import TEXTS
from tests.unit.forks import RIGOPS, forked
from tests.unit.probe import answers
from tests.version_0_1 import HOST

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Rigops

AT = "2026-11-22T08:00:00Z"


@pytest.fixture
def unwritable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory of a person, with a file where the folder of the journal would be."""
    (tmp_path / "rigops").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("RIGOPS_INVENTORY", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(lock: Path) -> Any:
    """One host that was changed and proven."""
    recorded = lockfile.read(version_0_1.FOLDER / "inventory.lock.json").hosts[HOST]
    result = HostResult(host=HOST, outcome="changed", lock=recorded)
    entry = Run(host=HOST, at=AT, inventory_digest="d", outcome="changed", seconds=1.0,
                versions={}, preflight=None)  # fmt: skip
    request = SimpleNamespace(name=HOST, lock=lock)
    run = SimpleNamespace(result=result, request=request, journal_entry=lambda: entry)
    return SimpleNamespace(runs=[run], results=[result])


@pytest.mark.skipif(os.geteuid() != 0, reason="without root this machine is not converged")
def test_an_apply_without_a_journal_ends_with_its_report_and_an_error(unwritable: Path) -> None:
    (unwritable / "inventory.py").write_text('rigs = ["@local"]\n')

    done = forked(RIGOPS, "apply", "--yes", "--preflight", "never", "--json")

    assert done.code == 1
    (host,) = done.json()["hosts"]
    assert host["host"] == "@local"
    assert "cannot write the run of" in done.err


def test_without_a_journal_the_lockfile_is_written_and_the_host_reported(
    unwritable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = unwritable / "inventory.lock.json"

    with pytest.raises(RigopsError, match="cannot write the run of"):
        conclude(_run(path), Ending(), as_json=True)

    assert set(lockfile.read(path).hosts) == {HOST}
    (host,) = json.loads(capsys.readouterr().out)["hosts"]
    assert host["outcome"] == "changed"


def test_without_a_lockfile_the_journal_is_written_and_the_host_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    with pytest.raises(RigopsError, match=r"cannot write inventory\.lock\.json"):
        conclude(_run(tmp_path / "gone" / "inventory.lock.json"), Ending(), as_json=True)

    assert HOST in (tmp_path / "rigops" / "journal.jsonl").read_text()
    (host,) = json.loads(capsys.readouterr().out)["hosts"]
    assert host["outcome"] == "changed"


@pytest.mark.usefixtures("unwritable")
def test_no_host_is_released_that_leaves_its_journal_nowhere() -> None:
    done = forked(RIGOPS, "release", "root@127.0.0.1:1", "--yes")

    assert (done.code, done.out) == (1, "")
    assert "cannot write the journal" in done.err


def test_a_capture_is_in_the_journal_of_this_machine_with_what_it_found(
    rigops: Rigops, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    texts = {**TEXTS, **answers.BROKEN}
    monkeypatch.setattr(access, "connect", lambda to, **_: Rig(to.name, texts))

    (tmp_path / "inventory.py").write_text('rigs = ["rig"]\n')

    said = rigops("capture", "rig")

    assert said.code == 1, said.err
    (run,) = journal.read(host="rig").runs
    assert (run.command, run.outcome, run.touched) == ("capture", "not_safe", False)
    assert "driver" in run.reason
