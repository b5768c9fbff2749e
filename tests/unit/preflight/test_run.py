from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rigops.inventory.spec.model import ExpectedGpus, RigSpec
from rigops.preflight.environment import environment
from rigops.preflight.payload import read_answer
from rigops.preflight.results import failure, passed
from rigops.preflight.run import PayloadLimits, prove
from rigops.probe.lost_cards import ADVICE, SECTIONS
from rigops.report.preflight import preflight_lines
from rigops.transport import LOCAL, ScriptResult, TransportError, connect
from rigops.transport.host_keys import HostKeyPolicy
from tests.unit.preflight.hosts import (
    GRANTED,
    PROVEN,
    REFUSED,
    REFUSED_PAIRS,
    A,
    B,
    FakeHost,
    answer,
    collectives,
    pair,
    said,
)


def lost(kind: str = "lost") -> TransportError:
    return TransportError("timeout" if kind == "timeout" else "lost", "gone", host="rig")


def test_first_the_grants_and_then_the_copies() -> None:
    host = FakeHost([GRANTED, PROVEN])

    found = prove("rig", host, None, level="p2p")

    assert [asked[asked.index("--level") + 1] for asked in host.asked] == ["quick", "p2p"]
    assert (found.status, found.level, found.predicted_nccl_transport) == ("ok", "L5", "P2P")
    assert [one.gb_per_s for one in found.pairs] == [12.9, 12.8]


@pytest.mark.parametrize(
    ("first", "level", "reached", "nccl"),
    [(GRANTED, "quick", "L0", "P2P"), (REFUSED, "p2p", None, "SHM")],
)
def test_no_copies_where_none_are_asked_for_or_granted(
    first: ScriptResult, level: str, reached: str | None, nccl: str
) -> None:
    at_stake: list[object] = []

    found = prove("rig", FakeHost([first, first]), None, level=level, before_copies=at_stake.append)

    assert at_stake == []
    assert (found.status, found.level) == ("ok", reached)
    assert found.predicted_nccl_transport == nccl


def test_a_hang_fails_and_says_whether_a_reboot_is_needed() -> None:
    hung = said(pair(A, B, "hang", evidence=["copy"]), pair(B, A, "skipped"), needs_reboot=True)

    found = prove("rig", FakeHost([GRANTED, hung]), None, level="p2p")

    assert (found.status, found.level, found.needs_reboot) == ("fail", "L1", True)


def test_a_host_wedged_already_gets_no_copies() -> None:
    wedged = said(
        pair(A, B, "skipped"), needs_reboot=True, troubles=[{"kind": "hang", "message": "smi"}]
    )
    host = FakeHost([wedged])

    found = prove("rig", host, None, level="p2p")

    assert len(host.asked) == 1
    assert (found.status, found.needs_reboot) == ("fail", True)


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        (RigSpec(), "ok"),
        (RigSpec(p2p="required"), "fail"),
        (RigSpec(p2p="nvlink"), "fail"),
        (RigSpec(gpus=ExpectedGpus(total=3)), "fail"),
        (RigSpec(gpus=ExpectedGpus(models=(("3090", 2),))), "ok"),
    ],
)
def test_what_is_declared_must_be_found(spec: RigSpec, status: str) -> None:
    assert prove("rig", FakeHost([REFUSED, REFUSED]), spec, level="p2p").status == status


def test_while_jobs_run_nothing_is_reduced_either() -> None:
    busy = said(*REFUSED_PAIRS, jobs=[{"address": A, "pid": 7, "name": "python3"}])

    found = prove("rig", FakeHost([busy]), None, level="p2p")

    assert (found.status, found.collectives.verdict) == ("ok", "not proven")
    assert "the GPUs are in use" in found.collectives.evidence[0]


def test_skip_touches_nothing() -> None:
    host = FakeHost([])

    assert prove("rig", host, RigSpec(p2p="skip"), level="p2p").status == "skipped"
    assert host.asked == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (answer("", code=127), "no python3"),
        (answer("Python 3.6.15", code=126), "Python 3.6.15 on the host"),
        (answer("", started=False), "This account is not available."),
        (answer("{", code=1, err="Traceback\nMemoryError"), "exit code 1: MemoryError"),
        (answer('{"result": {"schema": "other/1"}}'), "exit code 0"),
    ],
)
def test_a_host_that_cannot_run_it_is_unknown(given: ScriptResult, words: str) -> None:
    found = prove("rig", FakeHost([given]), None, level="p2p")

    assert (found.status, found.level) == ("unknown", None)
    assert words in found.reasons[0]


@pytest.mark.parametrize(
    ("trouble", "more", "status"),
    [
        ("no_library", {}, "unknown"),
        ("no_device", {}, "ok"),
        ("no_device", {"on_bus": [{"address": A, "driver": "nouveau"}]}, "unknown"),
        ("hang", {}, "fail"),
        ("error", {}, "unknown"),
    ],
)
def test_troubles_before_any_pair(trouble: str, more: dict[str, Any], status: str) -> None:
    troubles = [{"kind": trouble, "message": "because"}]
    given = said(gpus=[], topology="", troubles=troubles, **more)

    found = prove("rig", FakeHost([given]), None, level="p2p")

    assert found.status == status
    assert "because" in found.reasons[0]


JOBS = [
    {"address": A, "pid": 4711, "name": "python3"},
    {"address": B, "pid": 4711, "name": "python3"},
    {"address": B, "pid": 4712, "name": "ollama\x1b[31m"},
]


def test_nothing_is_copied_while_jobs_run_on_the_gpus() -> None:
    used = said(pair(A, B, "skipped"), pair(B, A, "skipped"), jobs=JOBS)
    host = FakeHost([used])
    begun: list[object] = []

    found = prove("rig", host, None, level="p2p", before_copies=begun.append)

    assert (found.status, found.level, len(host.asked), begun) == ("unknown", "L0", 1, [])
    (reason,) = found.reasons
    assert reason == (
        "the GPUs are in use, so nothing was copied: "
        f"python3 (4711) on {A} and {B}, ollama [31m (4712) on {B}; "
        "fix: wait for it or end it, then run preflight again"
    )
    assert (passed(found), failure(found, "", {})) == (False, None)


def test_jobs_are_no_matter_where_nothing_is_copied_or_they_may_be_interrupted() -> None:
    used = said(pair(A, B, "skipped"), pair(B, A, "skipped"), jobs=JOBS)
    refused = said(pair(A, B, "not_granted"), pair(B, A, "not_granted"), jobs=JOBS)

    assert prove("rig", FakeHost([used]), None, level="quick").status == "ok"
    assert prove("rig", FakeHost([refused]), None, level="p2p").status == "ok"
    host = FakeHost([used, PROVEN])
    assert prove("rig", host, None, level="p2p", allow_busy=True).status == "ok"


def test_a_pair_slower_than_its_sibling_is_a_warning_and_a_proof_all_the_same() -> None:
    links = ["16.0 GT/s PCIe x16", "8.0 GT/s PCIe x8"]
    bus = [{"address": one, "driver": "nvidia", "max_links": links} for one in (A, B)]
    pairs = pair(A, B, "ok", gb_per_s=6.5), pair(B, A, "ok", gb_per_s=5.1)

    found = prove("rig", FakeHost([GRANTED, said(*pairs, on_bus=bus)]), None, level="p2p")

    assert (found.status, passed(found)) == ("warn", True)
    assert "5.1 GB/s, 22% slower" in found.reasons[0]
    assert "the catalog expects 6.5 to 6.6 GB/s of PCIe 3.0 x8" in found.reasons[0]
    (slow,) = found.slow_pairs
    assert slow.pair.source == B


@pytest.mark.parametrize(
    "links", [None, "x", [], ["Unknown x16"], ["16.0 GT/s PCIe x0"], [None, 3], ["2.5 GT/s x" * 9]]
)
def test_a_slot_that_cannot_be_read_is_not_known(links: object) -> None:
    bus = [{"address": one, "driver": "nvidia", "max_links": links} for one in (A, B)]

    answer = read_answer(said(on_bus=bus).stdout)

    assert answer is not None
    assert answer.slots == {}


def saved(rig: str) -> ScriptResult:
    """What the probe of this rig prints."""
    folder = Path(__file__).resolve().parents[2] / "fixtures/rigs" / rig
    at = json.loads((folder / "meta.json").read_text())["collected_at"]
    lines = [f"rigops-probe/1 mark root=1 at={at} host={rig}"]
    for name in (section.name for section in SECTIONS):
        lines += ["", f"mark begin {name} root=1 limit=9", (folder / name).read_text()]
        lines += ["mark rc=0 from=1 to=2", "", f"mark end {name}"]
    asked = " ".join(section.name for section in SECTIONS)
    return answer("\n".join((*lines, "", f"mark asked {asked}", "mark done", "")))


LOST = "0000:86:00.0"
OF_T180: dict[str, Any] = {
    "gpus": [{"address": "0000:84:00.0", "name": "V100"}, {"address": LOST, "name": "V100"}],
    "on_bus": [{"address": LOST, "driver": "nvidia", "is_gone": True}],
}


def test_a_card_that_was_lost_before_ends_it_with_the_reboot_as_advice() -> None:
    pairs = pair("0000:84:00.0", LOST, "skipped"), pair(LOST, "0000:84:00.0", "skipped")
    host = FakeHost([said(*pairs, **OF_T180), saved("t180-4xv100-lost")])

    found = prove("rig", host, None, level="p2p")

    assert (found.status, found.level) == ("fail", None)
    assert {one.verdict for one in found.pairs} == {"skipped"}
    (reason,) = found.reasons
    assert reason == "card 86:00.0 is lost since 19:49 UTC: nothing was copied"
    assert failure(found, "", {}) is None
    assert not environment(found).variables
    shown = " ".join(" ".join(preflight_lines([found], 100)).split())
    assert f"fix: {ADVICE}" in shown
    assert "NCCL_P2P_DISABLE" not in shown


def test_a_card_that_cuda_does_not_list_and_that_is_there_fails() -> None:
    bus = [{"address": address, "driver": "nvidia"} for address in (A, B, "0000:41:00.0")]
    given = said(*REFUSED_PAIRS, on_bus=bus)

    found = prove("rig", FakeHost([given, saved("threadripper-3x3090"), given]), None, level="p2p")

    assert found.status == "fail"
    assert "0000:41:00.0" in found.reasons[0]


@pytest.mark.parametrize(
    ("kind", "again", "status", "verdict", "reboot"),
    [
        ("lost", "boot-1", "unknown", "unknown", False),
        ("lost", "boot-2", "fail", "hang", False),
        ("timeout", "boot-1", "fail", "hang", True),
        ("lost", "", "unknown", "unknown", False),
        ("timeout", "", "unknown", "unknown", False),
    ],
)
def test_a_host_that_falls_silent(
    kind: str, again: str, status: str, verdict: str, *, reboot: bool
) -> None:
    later = FakeHost([answer(again) if again else lost(), answer("")])

    found = prove(
        "rig",
        FakeHost([GRANTED, lost(kind)]),
        None,
        level="p2p",
        limits=PayloadLimits(back_s=0),
        reconnect=lambda: later,
    )

    assert later.closed
    assert (found.status, found.needs_reboot) == (status, reboot)
    assert [one.verdict for one in found.pairs] == [verdict, verdict]
    assert found.error is not None
    assert found.error.kind == kind


@pytest.mark.parametrize(
    ("again", "status", "verdict"),
    [("boot-2", "fail", "failed"), ("boot-1", "unknown", "not proven")],
)
def test_a_host_that_falls_silent_in_an_all_reduce(again: str, status: str, verdict: str) -> None:
    later = FakeHost([answer(again), answer("")])

    found = prove("rig", FakeHost([REFUSED, lost()]), None, level="p2p", reconnect=lambda: later)

    assert (found.status, found.collectives.verdict) == (status, verdict)
    assert "during the all-reduce" in found.collectives.evidence[0]
    assert [one.verdict for one in found.pairs] == ["not_granted", "not_granted"]


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (collectives("fine"), "collectives: verdict is 'fine', expected proven, not proven, "),
        (collectives("proven", control_gb_per_s="fast"), "control_gb_per_s is 'fast'"),
        ("proven", "collectives is 'proven', expected an object"),
    ],
    ids=range(3),
)
def test_collectives_with_a_wrong_field_are_no_answer(odd: object, message: str) -> None:
    found = prove("rig", FakeHost([said(collectives=odd)]), None, level="quick")

    assert found.status == "unknown"
    assert message in found.reasons[0]


def test_lost_before_the_copies_is_the_callers_to_tell() -> None:
    with pytest.raises(TransportError):
        prove("rig", FakeHost([lost()]), None, level="p2p")


def test_text_from_a_host_becomes_one_printable_line() -> None:
    odd = said(pair(A, B, "skipped", evidence=["\x1b[31mred\x07", "a\nb", "x" * 9000]))

    (found,) = prove("rig", FakeHost([odd]), None, level="quick").pairs

    assert found.evidence == ("[31mred", "a b", "x" * 500 + "…")


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (said(pair(A, B, "fine")), "pairs[0]: verdict is 'fine', expected hang, "),
        (
            said(pair(A, B, "ok", level="L9")),
            "pairs[0]: level is 'L9', expected L0, L1, ",
        ),
        (said(pair(A, B, "ok", gb_per_s="fast")), "gb_per_s is 'fast', expected a number"),
        (said(pair(A, B, "ok", gb_per_s=float("nan"))), "gb_per_s is nan, expected a finite"),
        (said(pair(A, B, "ok", evidence=[7])), "evidence is [7], expected a list of texts"),
        (said(troubles=["text"]), "troubles[0] is 'text', expected an object"),
        (said(on_bus="none"), "on_bus is 'none', expected a list of objects"),
        (said(boot_id="\x1b", processor=None), "processor is absent"),
    ],
    ids=range(8),
)
def test_an_answer_with_a_wrong_field_is_no_answer(odd: ScriptResult, message: str) -> None:
    found = prove("rig", FakeHost([odd]), None, level="quick")

    assert (found.status, found.pairs) == ("unknown", ())
    assert found.reasons[0].startswith("the result of the preflight program: ")
    assert message in found.reasons[0]
    json.dumps(found.as_json(), allow_nan=False)


def test_it_runs_on_this_machine() -> None:
    with connect(LOCAL, host_keys=HostKeyPolicy()) as here:
        found = prove("@local", here, None, level="quick")

    assert found.host == "@local"
    assert found.status in {"ok", "unknown", "fail"}
    assert found.pairs or found.reasons or len(found.gpus) == 1


def test_the_documented_times_of_faults_are_those_of_the_program() -> None:
    text = (Path(__file__).parents[3] / "docs/how-to/preflight.md").read_text()
    limits = PayloadLimits()
    gone_s = limits.dead_s + 1
    hang, start = (f"{given + gone_s:g} s" for given in (limits.pair_s, limits.init_s))

    for row in (
        f"| `cuInit` never returns | {start} |",
        f"| a copy, a kernel or a flag of a pair hangs | {hang}, and {start} where",
        f"| all pairs at once hang | {hang} |",
        f"| a pair is slow | {limits.pair_s:g} s |",
        f"| many pairs are slow | {limits.all_s:g} s for all;",
        f"leaves the net | {limits.back_s:g} s to come back |",
    ):
        assert row in text
