from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rigops.record import journal
from rigops.record.failed_proof import FailedProof
from rigops.transport import Result, TransportError
from tests.unit.preflight.hosts import GRANTED, PROVEN, REFUSED, A, B, FakeHost, pair, said

if TYPE_CHECKING:
    from rigops.transport import ScriptResult, Target
    from tests.unit.cli.conftest import Rigops

HUNG = said(
    pair(A, B, "hang", evidence=["copy of 4 KiB: did not end in time"]),
    pair(B, A, "skipped", evidence=["not tried after the hang"]),
)
INVENTORY = 'rigs = [("good", {}), ("bad", {}), ("strict", {"p2p": "required"}), "@local"]\n'


class Fleet:
    """Hosts by name; a host that is not there cannot be reached."""

    def __init__(self) -> None:
        self.answers: dict[str, list[ScriptResult | Exception]] = {}
        self.reached: list[str] = []
        self.hosts: list[FakeHost] = []
        self.records_with = Result(exit_code=0, stdout=b"", stderr=b"")

    def connect(self, target: Target, **_: Any) -> FakeHost:
        self.reached.append(target.name)
        if target.name not in self.answers:
            raise TransportError("timeout", "no answer within 20 s", host=target.name)
        host = FakeHost(self.answers[target.name], records_with=self.records_with)
        self.hosts.append(host)
        return host

    def records(self) -> list[tuple[str, str, str]]:
        """Of the last host: its proof, its failure and the line of its journal, each time."""
        return [(words[-3], words[-2], words[-1]) for words in self.hosts[-1].recorded]


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    made = Fleet()
    monkeypatch.setattr("rigops.cli.preflight.connect", made.connect)
    return made


def test_one_good_host(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [GRANTED, PROVEN]

    run = rigops("preflight", "rig", "--yes")

    assert run.code == 0
    lines = run.out.splitlines()
    assert lines[0] == "rig  ok, level L1, NCCL will use P2P"
    assert "12.9 GB/s" in run.out
    assert lines[-1] == (
        "Copies are proven. Not tested by this version: kernel access, flags, collectives."
    )
    assert "rig: trying pair 1 of 2, at most 120 s left" in run.err


def test_the_document(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [GRANTED, PROVEN]

    run = rigops("preflight", "rig", "--yes", "--json")

    document = run.json()
    assert list(document) == ["schema", "status", "hosts"]
    assert document["schema"] == "rigops.preflight/1"
    (host,) = document["hosts"]
    assert (host["host"], host["status"], host["level"]) == ("rig", "ok", "L1")
    assert (host["collectives"], host["needs_reboot"]) == ("not proven", False)
    assert host["predicted_nccl_transport"] == "P2P"
    assert host["pairs"][0] == {
        "from": A,
        "to": B,
        "verdict": "ok",
        "level": "L1",
        "gb_per_s": 12.9,
        "both_ways_gb_per_s": None,
        "staged_gb_per_s": None,
        "latency_us": None,
        "evidence": [],
    }
    assert "error" not in host


def test_a_hang_is_told_with_its_evidence(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [GRANTED, HUNG]

    run = rigops("preflight", "rig", "--yes")

    assert run.code == 1
    assert f"    hang  {A} to {B}\n        copy of 4 KiB: did not end in time" in run.out
    assert run.out.index("did not end in time") < run.out.index("not tried after the hang")
    assert run.out.splitlines()[-1].startswith("Copies are not proven. Not tested")


def test_every_host_of_the_inventory_worst_first(rigops: Rigops, fleet: Fleet) -> None:
    Path("inventory.py").write_text(INVENTORY)
    fleet.answers = {
        "good": [REFUSED],
        "bad": [GRANTED, HUNG],
        "strict": [REFUSED],
    }

    run = rigops("preflight", "--yes")

    assert sorted(fleet.reached) == ["@local", "bad", "good", "strict"]
    assert run.code == 1
    assert "bug in rigops" not in run.err
    heads = [line.split()[:2] for line in run.out.splitlines() if line and line[0] not in " \n"]
    assert heads[:4] == [
        ["bad", "fail,"],
        ["strict", "fail,"],
        ["@local", "unknown"],
        ["good", "ok,"],
    ]
    assert 'p2p = "required" is declared, and 2 of 2 pairs are refused' in run.out
    assert "good: No pair has peer access: no copies to test." in run.out


def test_a_host_out_of_reach_is_unknown(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [REFUSED]

    run = rigops("preflight", "rig", "gone", "--yes", "--json")

    assert run.code == 3
    assert run.json()["status"] == "unknown"
    assert run.json()["hosts"][1]["error"] == {
        "kind": "timeout",
        "message": "no answer within 20 s",
    }


def test_without_a_terminal_copies_need_yes(rigops: Rigops, fleet: Fleet) -> None:
    run = rigops("preflight", "rig")

    assert run.code == 130
    assert "fix: pass --yes, or --level quick" in run.err
    assert fleet.reached == []


@pytest.mark.parametrize(("agrees", "code"), [(True, 0), (False, 130)])
def test_on_a_terminal_it_asks(
    rigops: Rigops, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, *, agrees: bool, code: int
) -> None:
    asked: list[str] = []

    def confirm(text: str, **_: object) -> bool:
        asked.append(text)
        return agrees

    fleet.answers["rig"] = [REFUSED]
    monkeypatch.setattr("rigops.cli.preflight.has_terminal", lambda: True)
    monkeypatch.setattr("click.confirm", confirm)

    assert rigops("preflight", "rig").code == code
    assert "lock up" in asked[0]
    assert fleet.reached == (["rig"] if agrees else [])


def test_quick_does_not_ask(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [GRANTED]

    run = rigops("preflight", "rig", "--level", "quick")

    assert run.code == 0
    assert run.out.splitlines()[0] == "rig  ok, level L0, NCCL will use P2P"


def test_deep_is_not_offered(rigops: Rigops) -> None:
    assert rigops("preflight", "rig", "--level", "deep").code == 2


def test_without_hosts_and_without_an_inventory_it_is_a_usage_error(rigops: Rigops) -> None:
    run = rigops("preflight", "--yes", "--json")

    assert run.code == 2
    assert run.json()["schema"] == "rigops.error/1"


def test_a_failure_is_written_on_the_host_before_it_can_hang_and_once_it_is_known(
    rigops: Rigops, fleet: Fleet
) -> None:
    fleet.answers["rig"] = [GRANTED, HUNG]

    rigops("preflight", "rig", "--yes")

    begun, failed = fleet.records()
    assert (begun[0], begun[2]) == ("", "")
    assert not FailedProof.from_json(b64decode(begun[1]).decode()).has_ended
    seen = FailedProof.from_json(b64decode(failed[1]).decode())
    assert (seen.has_ended, [one.verdict for one in seen.pairs]) == (True, ["hang"])
    assert json.loads(failed[2])["outcome"] == "not_proven"
    (run,) = journal.read(host="rig").runs
    assert (run.outcome, run.preflight and run.preflight.status) == ("not_proven", "fail")


def test_a_pass_takes_the_failure_back_and_is_no_proof_by_itself(
    rigops: Rigops, fleet: Fleet
) -> None:
    fleet.answers["rig"] = [GRANTED, PROVEN]

    rigops("preflight", "rig", "--yes")

    assert [(proof, failed) for proof, failed, _ in fleet.records()][1:] == [("", "none")]
    assert [run.outcome for run in journal.read(host="rig").runs] == ["proven"]


def test_a_look_without_copies_records_nothing(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [GRANTED]

    rigops("preflight", "rig", "--level", "quick")

    assert fleet.records() == []
    assert journal.read(host="rig").runs == ()


def test_a_host_that_takes_no_record_is_named_and_its_result_stays(
    rigops: Rigops, fleet: Fleet
) -> None:
    fleet.records_with = Result(exit_code=1, stdout=b"", stderr=b"sudo: a password is required")
    fleet.answers["rig"] = [GRANTED, PROVEN]

    run = rigops("preflight", "rig", "--yes")

    assert run.code == 0
    assert "rig: not recorded on the host (sudo: a password is required)" in run.err
    assert "allow sudo without a password" in run.err
