from __future__ import annotations

import json
from typing import Any

import pytest

from rigops.inventory.spec.model import ExpectedGpus, RigSpec
from rigops.preflight.run import prove
from rigops.transport import LOCAL, ScriptResult, TransportError, connect
from rigops.transport.host_keys import HostKeyPolicy
from tests.unit.preflight.hosts import (
    GRANTED,
    PROVEN,
    REFUSED,
    A,
    B,
    FakeHost,
    answer,
    pair,
    said,
)


def lost(kind: str = "lost") -> TransportError:
    return TransportError("timeout" if kind == "timeout" else "lost", "gone", host="rig")


def test_first_the_grants_and_then_the_copies() -> None:
    host = FakeHost([GRANTED, PROVEN])

    found = prove("rig", host, None, level="p2p")

    assert [asked[asked.index("--level") + 1] for asked in host.asked] == ["quick", "p2p"]
    assert (found.status, found.level, found.predicted_nccl_transport) == ("ok", "L1", "P2P")
    assert [one.gb_per_s for one in found.pairs] == [12.9, 12.8]


@pytest.mark.parametrize(
    ("first", "level", "reached", "nccl"),
    [(GRANTED, "quick", "L0", "P2P"), (REFUSED, "p2p", "L1", "SHM")],
)
def test_no_copies_where_none_are_asked_for_or_granted(
    first: ScriptResult, level: str, reached: str, nccl: str
) -> None:
    host = FakeHost([first])

    found = prove("rig", host, None, level=level)

    assert len(host.asked) == 1
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
    assert prove("rig", FakeHost([REFUSED]), spec, level="p2p").status == status


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


def test_a_card_that_fell_off_fails() -> None:
    bus = [{"address": address, "driver": "nvidia"} for address in (A, B, "0000:41:00.0")]
    given = said(pair(A, B, "not_granted"), pair(B, A, "not_granted"), on_bus=bus)

    found = prove("rig", FakeHost([given]), None, level="p2p")

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
    later = FakeHost([answer(again) if again else lost()])

    found = prove(
        "rig", FakeHost([GRANTED, lost(kind)]), None, level="p2p", reconnect=lambda: later
    )

    assert later.closed
    assert (found.status, found.needs_reboot) == (status, reboot)
    assert [one.verdict for one in found.pairs] == [verdict, verdict]
    assert found.error is not None
    assert found.error.kind == kind


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
        (said(pair(A, B, "ok", level="L9")), "pairs[0]: level is 'L9', expected L0, L1"),
        (said(pair(A, B, "ok", gb_per_s="fast")), "gb_per_s is 'fast', expected a number"),
        (said(pair(A, B, "ok", gb_per_s=float("nan"))), "gb_per_s is nan, expected a finite"),
        (said(pair(A, B, "ok", evidence=[7])), "evidence is [7], expected a list of texts"),
        (said(troubles=["text"]), "troubles[0] is 'text', expected an object"),
        (said(on_bus="none"), "on_bus is 'none', expected a list of objects"),
        (said(boot_id="\x1b", processor=None), "processor is absent, expected text"),
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
