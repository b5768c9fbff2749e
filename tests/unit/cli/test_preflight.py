from __future__ import annotations

import json
import re
import subprocess
from base64 import b64decode
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rigops import __version__
from rigops.hostside.packing import pack
from rigops.record import journal
from rigops.record.proven import FailedProof
from rigops.transport import Result, TransportError
from tests.unit.preflight.hosts import (
    GRANTED,
    PROVEN,
    REFUSED,
    A,
    B,
    C,
    FakeHost,
    collectives,
    pair,
    said,
)

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
        return [(words[-4], words[-3], words[-2]) for words in self.hosts[-1].recorded]


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    made = Fleet()
    monkeypatch.setattr("rigops.hosts.proving.connect", made.connect)
    monkeypatch.setattr("rigops.preflight.run.pack", pack)
    return made


def test_one_good_host(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [GRANTED, PROVEN]

    run = rigops("preflight", "rig", "--yes")

    assert run.code == 0
    lines = run.out.splitlines()
    assert lines[0] == "rig  ok, level L5, NCCL will use P2P"
    assert "12.9 GB/s L5" in run.out
    assert lines[-1] == (
        "Proven for each pair, all at once and between processes: copies, kernels, flags. "
        "Collectives are not proven."
    )
    assert "rig: trying pair 1 of 2, at most 120 s left" in run.err


def test_a_pair_whose_kernels_were_not_tried_is_copied_and_not_ok(
    rigops: Rigops, fleet: Fleet
) -> None:
    why = "kernels cannot be compiled, so that only copies were tried"
    copied = pair(A, B, "ok", level="L1", gb_per_s=12.9, evidence=[why])
    fleet.answers["rig"] = [GRANTED, said(copied, pair(B, A, "ok", gb_per_s=12.8))]

    run = rigops("preflight", "rig", "--yes")

    assert run.code == 0
    lines = run.out.splitlines()
    assert lines[0] == "rig  warn, level L1, NCCL will use P2P"
    assert "12.9 GB/s copied" in run.out
    assert f"    copied  {A} to {B}\n        {why}" in run.out
    assert lines[-2] == (
        "Copies are proven. Not proven: kernel access, flags. Collectives are not proven."
    )


def test_the_document(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [GRANTED, PROVEN]

    run = rigops("preflight", "rig", "--yes", "--json")

    document = run.json()
    assert list(document) == ["schema", "status", "hosts"]
    assert document["schema"] == "rigops.preflight/1"
    (host,) = document["hosts"]
    assert (host["host"], host["status"], host["level"]) == ("rig", "ok", "L5")
    assert (host["collectives"], host["needs_reboot"]) == ("not proven", False)
    assert host["collectives_evidence"] == []
    assert host["collectives_library"] is host["collectives_p2p_gb_per_s"] is None
    assert host["predicted_nccl_transport"] == "P2P"
    assert host["pairs"][0] == {
        "from": A,
        "to": B,
        "verdict": "ok",
        "level": "L5",
        "gb_per_s": 12.9,
        "both_ways_gb_per_s": None,
        "staged_gb_per_s": None,
        "latency_us": None,
        "round_trip_us": None,
        "together_gb_per_s": None,
        "evidence": [],
        "link": "PHB",
    }
    assert host["at"].startswith("20")
    assert "error" not in host


def test_copies_that_collapse_at_once_are_a_warning_with_rates(
    rigops: Rigops, fleet: Fleet
) -> None:
    every = [pair(*ends, "ok", gb_per_s=20.0) for ends in permutations((A, B, C), 2)]
    flows = [
        {"turn": 1, "from": one, "to": other, "gb_per_s": rate}
        for one, other, rate in ((A, B, 19.0), (B, C, 2.5), (C, A, 19.0))
    ]
    gpus = [{"address": address, "name": "RTX 3090"} for address in (A, B, C)]
    fleet.answers["rig"] = [GRANTED, said(*every, flows=flows, gpus=gpus, topology="")]

    run = rigops("preflight", "rig", "--yes")

    assert run.code == 0
    assert run.out.splitlines()[0] == "rig  warn, level L5"
    words = " ".join(run.out.split())
    assert "collapse, with right data: 2.5 of 20.0 GB/s; all-to-all and tree" in words
    assert "    all cards at once, each to one other: 40.5 of 60.0 GB/s expected\n" in run.out


def test_a_hang_is_told_with_its_evidence(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [GRANTED, HUNG]

    run = rigops("preflight", "rig", "--yes")

    assert run.code == 1
    assert f"    hang  {A} to {B}\n        copy of 4 KiB: did not end in time" in run.out
    assert run.out.index("did not end in time") < run.out.index("not tried after the hang")
    head, *_, last, step = run.out.splitlines()
    assert head == "rig  fail: copies hang on 1 of 2 pairs (L1, 4 KiB), NCCL will use P2P"
    assert last == "Peer-to-peer is not proven. Collectives are not proven."
    assert step == "Next: rigops doctor rig"


ONE_GPU = said(gpus=[{"address": A, "name": "H200"}], topology="")
EIGHT = [{"address": f"0000:{at}0:00.0", "name": "RTX 3090"} for at in range(8)]
EIGHT_REFUSED = said(
    *(
        pair(one["address"], other["address"], "not_granted", evidence=["no", other["name"]])
        for one in EIGHT
        for other in EIGHT
        if one != other
    ),
    gpus=EIGHT,
    topology="",
)


@pytest.mark.parametrize("level", ["quick", "p2p"])
@pytest.mark.parametrize(
    ("answer", "nothing"),
    [
        (ONE_GPU, "1 GPU: nothing to prove"),
        (said(gpus=[]), "no GPU: nothing to prove"),
        (REFUSED, "no pair has peer access (2 of 2)"),
        (EIGHT_REFUSED, "no pair has peer access (56 of 56)"),
    ],
)
def test_where_no_pair_was_tried_nothing_is_ok_and_no_level_is_named(
    rigops: Rigops, fleet: Fleet, answer: ScriptResult, nothing: str, level: str
) -> None:
    fleet.answers["rig"] = [answer] * 6
    words = ("preflight", "rig", "--yes", "--level", level)

    screen, given = rigops(*words), rigops(*words, "--env")
    (host,) = rigops(*words, "--json").json()["hosts"]

    assert screen.code == 0
    assert screen.out.startswith(f"rig  {nothing}")
    assert (host["level"], host["nothing_to_prove"]) == (None, nothing)
    first, *_ = host["paragraph"].split(". ")
    assert first.endswith(f": {nothing}") or host["paragraph"].endswith(f": {nothing}.")
    for text in (screen.out, host["paragraph"], given.out):
        assert not re.search(r"\bok\b|L[0-5]|not_granted", text), text
    assert "peer access" not in screen.out or len(host["gpus"]) > 1
    assert len(screen.out.splitlines()) <= 4


def test_p2p_that_is_as_fast_as_without_within_the_scatter_is_no_fault(
    rigops: Rigops, fleet: Fleet
) -> None:
    near = collectives("proven", p2p_gb_per_s=1.55, control_gb_per_s=1.6)
    pairs = pair(A, B, "ok"), pair(B, A, "ok")
    fleet.answers["near"] = [GRANTED, said(*pairs, collectives=near)]

    assert "slower" not in rigops("preflight", "near", "--yes").out


@pytest.mark.parametrize(
    ("cause", "why", "is_advised"),
    [
        ("p2p", "all-reduce by NCCL fails with P2P and is right without", True),
        ("other", "all-reduce by NCCL fails without P2P as well", False),
    ],
)
def test_collectives_that_fail(
    rigops: Rigops, fleet: Fleet, cause: str, why: str, *, is_advised: bool
) -> None:
    failed = collectives("failed", cause=cause, evidence=["all-reduce: did not end in time"])
    pairs = pair(A, B, "ok"), pair(B, A, "ok")
    fleet.answers["rig"] = [GRANTED, said(*pairs, collectives=failed)]

    run = rigops("preflight", "rig", "--yes")

    assert run.code == 1
    assert why in run.out
    assert "    collectives by NCCL 2.18.5: failed\n        all-reduce: did not end" in run.out
    assert ('        "nccl": {"NCCL_P2P_DISABLE": "1"}\n' in run.out) == is_advised
    assert run.out.splitlines()[-2] == "Peer-to-peer is not proven. Collectives fail."


def test_every_host_of_the_inventory_worst_first(rigops: Rigops, fleet: Fleet) -> None:
    Path("inventory.py").write_text(INVENTORY)
    fleet.answers = {
        "good": [REFUSED, REFUSED],
        "bad": [GRANTED, HUNG],
        "strict": [REFUSED, REFUSED],
    }

    run = rigops("preflight", "--yes")

    assert sorted(fleet.reached) == ["@local", "bad", "good", "strict"]
    assert run.code == 1
    assert "bug in rigops" not in run.err
    assert [line.split("  ")[0] for line in run.out.splitlines()[:3]] == ["bad", *[""] * 2]
    required = 'p2p = "required" is declared, and 2 of 2 pairs are refused'
    table = run.out.splitlines()[-6:]
    assert [re.split(r" {2,}", line) for line in table] == [
        ["host", "result", "reason", "next"],
        ["bad", "FAIL", "copies hang on 1 of 2 pairs (L1, 4 KiB)", "rigops doctor bad"],
        ["strict", "FAIL", required, "rigops doctor strict"],
        ["@local", "unknown", "no answer within 20 s", "rigops doctor @local"],
        ["good", "not tried", "no pair has peer access (2 of 2)"],
        ["4 hosts: 2 fail, 1 unknown, 1 not tried."],
    ]


def test_a_host_out_of_reach_is_unknown(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [REFUSED, REFUSED]

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

    fleet.answers["rig"] = [REFUSED, REFUSED]
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


THREE = [{"address": one, "name": "RTX 3090"} for one in (A, B, C)]
EACH = [(one, other) for one in (A, B, C) for other in (A, B, C) if one != other]
GRANTED_3 = said(*(pair(*both, "skipped") for both in EACH), gpus=THREE, topology="")


def some(verdict: str) -> ScriptResult:
    return said(pair(A, C, verdict), pair(C, A, verdict), gpus=THREE, topology="")


def test_only_named_pairs_are_tried_and_that_is_no_proof(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [GRANTED_3, some("ok")]

    run = rigops("preflight", "rig", "--yes", "--pairs", f"0:{C}", "--json")

    assert run.code == 0
    (host,) = run.json()["hosts"]
    assert (host["status"], host["level"], host["partial"]) == ("ok", "L0", True)
    assert "4 of 6 pairs were left out: no proof of the host" in host["reasons"]
    tried = {(one["from"], one["to"]) for one in host["pairs"] if one["verdict"] == "ok"}
    assert (tried, len(host["pairs"])) == ({(A, C), (C, A)}, 6)
    copied = fleet.hosts[0].asked[1]
    assert copied[copied.index("--pairs") :] == ["--pairs", "0:2", "2:0"]
    assert [one.outcome for one in journal.read(host="rig").runs] == ["not_proven"]
    begun, ended = (words[-4:] for words in fleet.hosts[0].recorded)
    named = FailedProof.from_json(b64decode(begun[1]).decode()).pairs
    assert [(one.source, one.target) for one in named] == [(A, C), (C, A)]
    assert (ended[0], ended[1], ended[3]) == ("", "", begun[1])  # nothing of other pairs


def test_a_failure_of_named_pairs_is_recorded(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [GRANTED_3, some("hang")]

    assert rigops("preflight", "rig", "--yes", "--pairs", "2:0").code == 1

    begun, ended = (words[-4:] for words in fleet.hosts[0].recorded)
    failed = FailedProof.from_json(b64decode(ended[1]).decode())
    assert {one.verdict for one in failed.pairs} == {"hang"}
    assert ended[3] == begun[1]


def test_every_pair_named_is_a_whole_run(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [GRANTED, PROVEN]

    run = rigops("preflight", "rig", "--yes", "--json", "--pairs", "0:1")

    assert run.json()["hosts"][0]["partial"] is False
    assert fleet.records()[-1][1] == "none"


@pytest.mark.parametrize(
    ("words", "message", "accepted"),
    [
        (("--pairs", "0-1"), "not a pair of GPUs", "0:1 or 0a:00.0:0b:00.0"),
        (("--pairs", "0:1,0:7"), "CUDA lists no such GPU", f"0 or {A}, 1 or {B}"),
        (("--pairs", f"{A}:0000:99:00.0"), "CUDA lists no such GPU", f"1 or {B}"),
        (("--pairs", "1:0b:00.0"), "a pair needs two different GPUs", f"1 or {B}"),
        (("other", "--pairs", "0:1"), "takes one host, and 2 are chosen", ""),
        (("--pairs", "0:1", "--env"), "what to set follows from all pairs", ""),
    ],
)
def test_wrong_pairs_name_what_there_is(
    rigops: Rigops, fleet: Fleet, words: tuple[str, ...], message: str, accepted: str
) -> None:
    fleet.answers["rig"] = [GRANTED]

    run = rigops("preflight", "rig", "--yes", "--json", *words)

    assert run.code == 2
    (error,) = run.json()["errors"]
    assert error["message"] == message
    assert accepted in error["accepted"]
    assert fleet.hosts == [] or fleet.records() == []


def test_what_to_set_is_all_that_stdout_has(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [GRANTED, HUNG]

    run = rigops("preflight", "rig", "--yes", "--env")

    assert run.code == 1
    head, *lines = run.out.splitlines()
    assert head.startswith("# rigops preflight rig, 20")
    assert lines == [
        f"# why: hang {A} to {B}",
        "# until when: `rigops preflight rig` passes",
        "export NCCL_P2P_DISABLE=1",
        "# vLLM: pass --disable-custom-all-reduce; it copies between GPUs whatever NCCL is set to",
    ]


def test_a_shell_can_source_what_to_set_whatever_a_host_is_called(
    rigops: Rigops, fleet: Fleet
) -> None:
    Path("inventory.py").write_text('rigs = ["rig"]\n')
    wrong = said(pair(A, B, "wrong_data", evidence=["$(touch x)\n'"]), pair(B, A, "ok"))
    fleet.answers["rig"] = [GRANTED, wrong]

    run = rigops("preflight", "--yes", "--env")

    sourced = subprocess.run(
        ["sh", "-euc", f"{run.out}\nprintenv NCCL_P2P_DISABLE"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (sourced.stdout, sourced.stderr) == ("1\n", "")


def test_a_failure_comes_with_what_to_set_and_a_paragraph(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [GRANTED, HUNG, GRANTED, HUNG]

    report = rigops("preflight", "rig", "--yes").out
    (host,) = rigops("preflight", "rig", "--yes", "--json").json()["hosts"]

    (variable,) = host["env"]["variables"]
    assert (variable["name"], variable["value"]) == ("NCCL_P2P_DISABLE", "1")
    assert '        "nccl": {"NCCL_P2P_DISABLE": "1"}\n' in report
    paragraph = host["paragraph"]
    assert f"    to paste into an issue:\n        {paragraph}\n" in report
    assert paragraph.startswith(f"rigops {__version__} preflight on {host['at'][:10]}: fail at ")
    assert paragraph.endswith(
        ". ASUS X399, kernel 6.1.0-31-amd64, driver 535.261.03, 2 x RTX 3090. "
        f"hang: 1 of 2 pairs, {A} to {B} (copy of 4 KiB: did not end in time). "
        "skipped: 1 of 2 pairs. "
        "Advice: NCCL_P2P_DISABLE=1 until preflight passes."
    )
    assert "rig " not in paragraph


def test_a_pair_slower_than_its_sibling_is_shown_with_the_last_proof(
    rigops: Rigops, fleet: Fleet
) -> None:
    slower = said(pair(A, B, "ok", gb_per_s=12.9), pair(B, A, "ok", gb_per_s=9.0))
    fleet.answers["rig"] = [GRANTED, PROVEN]
    rigops("preflight", "rig", "--yes")
    fleet.answers["rig"] = [GRANTED, slower]

    run = rigops("preflight", "rig", "--yes")

    assert run.code == 0
    assert run.out.startswith("rig  warn, level L5")
    assert f"{B} to {A}: 9.0 GB/s, 30% slower than {A} to {B} (12.9 GB/s)" in run.out
    assert "; 12.8 GB/s at the proof of 20" in run.out


def test_what_to_set_is_of_one_host(rigops: Rigops, fleet: Fleet) -> None:
    run = rigops("preflight", "rig", "other", "--yes", "--env")

    assert run.code == 2
    assert "takes one host, and 2 are chosen" in run.err
    assert fleet.reached == []


def test_pairs_that_were_skipped_are_no_proof_and_no_hang(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [GRANTED, GRANTED]  # the memory of the cards is in use by others

    assert rigops("preflight", "rig", "--yes").code == 0

    begun, ended = (words[-4:] for words in fleet.hosts[0].recorded)
    assert (ended[1], ended[3]) == ("", begun[1])
    assert [one.outcome for one in journal.read(host="rig").runs] == ["not_proven"]


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
