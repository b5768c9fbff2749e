"""A host that restarts, freezes or leaves the net during the copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rigops.preflight.run import PayloadLimits, prove
from rigops.transport import TransportError
from tests.unit.preflight.hosts import GRANTED, A, B, CutError, FakeHost, answer, pair

if TYPE_CHECKING:
    from rigops.preflight.found import HostFound
    from rigops.transport import ScriptResult

LOST = TransportError("lost", "gone", host="rig")
BOOTED = "6e0bd7b0-5d3b-4a39-8a35-7a3e5c3e2f1b"
STEP = {"event": "step", "pair": [1, 0], "step": "copy of 64 MiB", "rung": "L1"}
XID = (
    "2026-01-31T18:00:00.000001+0000 rig kernel: NVRM: Xid (PCI:0000:0b:00): 79, pid='<unknown>', "
    "name=<unknown>, GPU has fallen off the bus.\n"
)


def finished(one: str, other: str, verdict: str = "ok", **more: Any) -> dict[str, Any]:
    return {"event": "pair", "pair": pair(one, other, verdict, **more)}


def lost_with(
    *events: dict[str, Any], again: list[ScriptResult | Exception], kind: str = "lost"
) -> tuple[HostFound, FakeHost, list[float]]:
    error = TransportError("timeout" if kind == "timeout" else "lost", "gone", host="rig")
    later, slept = FakeHost(again), list[float]()
    found = prove(
        "rig",
        FakeHost([GRANTED, CutError(error, *events)]),
        None,
        level="p2p",
        limits=PayloadLimits(back_s=60),
        reconnect=lambda: later,
        sleep=slept.append,
    )
    return found, later, slept


def test_a_host_lost_in_an_all_reduce_leaves_every_pair_as_it_was() -> None:
    reducing = {"event": "stage", "rung": "all-reduce", "text": "all-reduce by NCCL"}

    found, _, _ = lost_with(
        finished(A, B), finished(B, A), reducing, again=[answer(BOOTED), answer(XID)]
    )

    assert [one.verdict for one in found.pairs] == ["ok", "ok"]
    assert (found.status, found.collectives.verdict) == ("fail", "failed")
    assert found.collectives.evidence == (
        "last heard: all-reduce by NCCL",
        "the host restarted during the all-reduce",
        "gone",
        "the log of that boot: Xid 79 of 0000:0b:00.0: GPU has fallen off the bus.",
    )


def test_the_pair_under_way_hung_and_what_was_finished_stays_as_it_was() -> None:
    found, _, _ = lost_with(
        finished(A, B, gb_per_s=12.9),
        {**STEP, "rung": "L2"},
        again=[answer(BOOTED), answer(XID)],
    )

    assert (found.status, found.changes) == ("fail", None)
    one, other = found.pairs
    assert (one.verdict, one.gb_per_s) == ("ok", 12.9)
    assert (other.verdict, other.level) == ("hang", "L2")
    assert other.evidence == (
        f"last heard: copy of 64 MiB, from {B} to {A}",
        "the host restarted during the copies",
        "gone",
        "the log of that boot: Xid 79 of 0000:0b:00.0: GPU has fallen off the bus.",
    )
    assert found.error is not None
    assert found.error.message.endswith(f"last heard: copy of 64 MiB, from {B} to {A}")


def test_lost_while_all_pairs_were_busy_is_a_hang_of_all_that_took_part() -> None:
    found, _, _ = lost_with(
        finished(A, B, gb_per_s=12.9, level="L3"),
        finished(B, A, "wrong_data"),
        {"event": "stage", "rung": "L4", "text": "all pairs at once"},
        {"event": "step", "pair": None, "step": "all pairs at once, round 1 of 3", "rung": ""},
        again=[answer(BOOTED), answer(XID)],
    )

    one, other = found.pairs
    assert (one.verdict, one.level, one.gb_per_s) == ("hang", "L4", 12.9)
    assert one.evidence[0] == "last heard: all pairs at once"
    assert other.verdict == "wrong_data"


def test_lost_after_all_pairs_were_busy_is_a_hang_of_none_that_passed() -> None:
    found, _, _ = lost_with(
        finished(A, B, level="L3"),
        finished(B, A, level="L3"),
        {"event": "stage", "rung": "L4", "text": "all pairs at once"},
        finished(A, B, level="L4"),
        again=[answer(BOOTED), answer(XID)],
    )

    assert [(one.verdict, one.level) for one in found.pairs] == [("ok", "L4"), ("hang", "L4")]


def test_lost_between_processes_is_of_the_pair_under_way() -> None:
    found, _, _ = lost_with(
        finished(A, B, gb_per_s=12.9, level="L3"),
        finished(B, A, gb_per_s=12.8, level="L3"),
        {"event": "stage", "rung": "L5", "text": "between processes, pair 2 of 2"},
        {
            "event": "step",
            "pair": [1, 0],
            "step": "stores of 1 MiB into another process",
            "rung": "",
        },
        again=[answer(BOOTED), answer(XID)],
    )

    one, other = found.pairs
    assert (one.verdict, one.level) == ("ok", "L3")
    assert (other.verdict, other.level, other.gb_per_s) == ("hang", "L5", 12.8)
    assert other.evidence[0] == (
        f"last heard: stores of 1 MiB into another process, from {B} to {A}"
    )


def test_what_was_not_begun_is_not_blamed() -> None:
    found, _, _ = lost_with(
        {**STEP, "pair": [0, 1]}, again=[answer(BOOTED), answer("why: no such boot\n")]
    )

    assert [one.verdict for one in found.pairs] == ["hang", "skipped"]
    assert found.pairs[0].evidence[-1] == (
        "the log of that boot could not be read (no such boot); see `rigops doctor`"
    )


def test_a_restart_after_the_last_pair_fails_too() -> None:
    found, _, _ = lost_with(finished(A, B), finished(B, A), again=[answer(BOOTED), answer(XID)])

    assert [one.verdict for one in found.pairs] == ["ok", "ok"]
    assert found.status == "fail"


def test_the_host_is_waited_for_until_it_is_up_again() -> None:
    found, later, slept = lost_with(
        STEP, again=[LOST, LOST, answer(f"{BOOTED}\nstopping"), answer(BOOTED), answer(XID)]
    )

    assert len(slept) == 3
    assert later.answers == []
    assert [one.verdict for one in found.pairs] == ["skipped", "hang"]


def test_its_log_is_that_of_the_boot_which_was_lost() -> None:
    _, later, _ = lost_with(STEP, again=[answer(BOOTED), answer("")])

    assert later.asked[-1][-2:] == ["-1", "1769882400"]  # boot-1 is no boot id


def test_a_net_that_failed_leaves_the_pair_unknown_and_names_it() -> None:
    found, _, _ = lost_with(finished(A, B), STEP, again=[answer("boot-1\nrunning")])

    assert found.status == "unknown"
    assert [one.verdict for one in found.pairs] == ["ok", "unknown"]
    assert found.pairs[1].evidence[0] == f"last heard: copy of 64 MiB, from {B} to {A}"


def test_a_pair_that_failed_before_the_net_did_is_a_failure() -> None:
    found, _, _ = lost_with(finished(A, B, "wrong_data"), STEP, again=[answer("boot-1")])

    assert found.status == "fail"


@pytest.mark.parametrize(
    "event",
    [
        {"event": "step", "pair": [7, 0], "step": "copy", "rung": ""},
        {"event": "step", "pair": ["a", None], "step": "copy", "rung": ""},
        {"event": "step", "pair": None, "step": "cuInit", "rung": ""},
        {"event": "pair", "pair": {"from": A, "verdict": "fine"}},
        {"event": "pair", "pair": None},
    ],
    ids=range(5),
)
def test_an_event_that_makes_no_sense_says_nothing(event: dict[str, Any]) -> None:
    found, _, _ = lost_with(event, again=[answer("boot-1")])

    assert [one.verdict for one in found.pairs] == ["unknown", "unknown"]
