"""The proof of a host and its failure, as sh writes them there."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from rigops.probe.sections.rigops_state import STATE
from rigops.record import Pair, Proven
from rigops.record.proven import BEGUN, FailedProof
from rigops.record.shell import recording
from tests.unit import programs
from tests.unit.record.examples import PROVEN
from tests.unit.record.test_journal_shell import history, run

if TYPE_CHECKING:
    from pathlib import Path

FAILURE = FailedProof(
    at="2026-01-31T18:00:00Z",
    versions={},
    pairs=(Pair("0000:0a:00.0", "0000:0b:00.0", "hang", None),),
)


class Recorded:
    """The files of a host, below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.proven, self.failed = root / "proven.json", root / "failed_proof.json"

    def record(self, line: str = "", **what: Any) -> None:
        command = [word.replace(STATE, str(self.root)) for word in recording(line, **what)]
        subprocess.run([*programs.shell("dash"), *command[1:]], check=True, timeout=20)


def test_a_preflight_that_begins_leaves_the_proof_and_only_a_failure_takes_it(
    tmp_path: Path,
) -> None:
    host = Recorded(tmp_path)
    host.record(run(1), proven=PROVEN, has_passed=True)
    assert Proven.from_json(host.proven.read_text()) == PROVEN

    host.record(failed=FAILURE)
    assert (host.proven.exists(), host.failed.exists()) == (True, True)
    assert history(tmp_path / "journal.jsonl") == (1, 0)

    host.record(run(2), has_passed=True)
    assert (host.proven.exists(), host.failed.exists()) == (True, False)

    host.record(run(3), failed=FAILURE)
    assert (host.proven.exists(), host.failed.exists()) == (False, True)
    assert FailedProof.from_json(host.failed.read_text()) == FAILURE

    host.record(run(4))  # which did not run preflight
    assert host.failed.exists()
    host.record(run(5), proven=PROVEN, has_passed=True)
    assert (host.proven.exists(), host.failed.exists()) == (True, False)
    assert history(tmp_path / "journal.jsonl") == (5, 0)


BEGUN_NOW = FailedProof(
    at="2026-02-01T18:00:00Z",
    versions={},
    pairs=(Pair("0000:0a:00.0", "0000:41:00.0", BEGUN, None),),
)
LATER = FailedProof(
    at="2026-02-01T18:00:00Z",
    versions={},
    pairs=(Pair("0000:0a:00.0", "0000:41:00.0", "hang", None),),
)


def test_pairs_that_were_tried_alone_leave_the_failure_of_others(tmp_path: Path) -> None:
    host = Recorded(tmp_path)
    host.record(run(1), failed=FAILURE)

    for ended in (LATER, None):
        host.record(failed=BEGUN_NOW)
        host.record(run(2), failed=ended, only_over=BEGUN_NOW)
        assert FailedProof.from_json(host.failed.read_text()) == FAILURE

    host.record(run(3), failed=LATER)
    assert FailedProof.from_json(host.failed.read_text()) == LATER


def test_pairs_that_were_tried_alone_leave_a_proof_until_one_of_them_fails(tmp_path: Path) -> None:
    host = Recorded(tmp_path)
    host.record(run(1), proven=PROVEN, has_passed=True)

    host.record(failed=BEGUN_NOW)
    assert host.failed.exists()
    host.record(run(2), only_over=BEGUN_NOW)
    assert (host.proven.exists(), host.failed.exists()) == (True, False)

    host.record(failed=BEGUN_NOW)
    host.record(run(3), failed=LATER, only_over=BEGUN_NOW)
    assert (host.proven.exists(), host.failed.exists()) == (False, True)
    assert FailedProof.from_json(host.failed.read_text()) == LATER
