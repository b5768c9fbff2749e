"""Pairs that are slower than others of the same kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rigops.preflight.found import GpuSeen, PairFound, SlowPair
from rigops.preflight.payload import PayloadReport, Slot
from rigops.preflight.siblings import LastRates, last_rates, slow_pairs
from rigops.record import Pair
from rigops.record.journal import Preflight, Run

A, B, C = "0000:0a:00.0", "0000:0b:00.0", "0000:41:00.0"
RTX_3090, A6000 = "NVIDIA GeForce RTX 3090", "NVIDIA RTX A6000"
X16 = Slot(4, 16)
RIG = PayloadReport(
    gpus=tuple(GpuSeen(address, RTX_3090) for address in (A, B, C)),
    slots=dict.fromkeys((A, B, C), X16),
)
LAST = LastRates("2026-10-01", (Pair(A, B, "ok", 24.9),))


def pair(
    one: str, other: str, rate: float | None, link: str = "PHB", verdict: str = "ok"
) -> PairFound:
    return PairFound(one, other, verdict, "L1", gb_per_s=rate, link=link)


def slow(
    *pairs: PairFound, answer: PayloadReport = RIG, last: LastRates | None = None
) -> tuple[SlowPair, ...]:
    return slow_pairs(pairs, answer, last=last)


def test_a_slow_pair_is_named_with_the_best_the_catalog_and_the_last_proof() -> None:
    (found,) = slow(pair(A, B, 20.0), pair(B, A, 25.0), last=LAST)

    assert str(found) == (
        f"{A} to {B}: 20.0 GB/s, 20% slower than {B} to {A} (25.0 GB/s) with the same link (PHB) "
        "and cards; the catalog expects 24.2 to 27.1 GB/s of PCIe 4.0 x16; 24.9 GB/s at the proof "
        "of 2026-10-01"
    )
    assert found.as_json() == {
        "from": A,
        "to": B,
        "gb_per_s": 20.0,
        "best": {"from": B, "to": A, "gb_per_s": 25.0},
        "expected": {"link": "PCIe 4.0 x16", "gb_per_s": [24.2, 27.1], "measured": True},
        "last_proof": {"day": "2026-10-01", "gb_per_s": 24.9},
    }


def test_nothing_is_made_up_where_the_slots_and_the_last_proof_are_not_known() -> None:
    (found,) = slow(pair(A, B, 20.0), pair(B, A, 25.0), answer=replace(RIG, slots={}))

    assert str(found).endswith("with the same link (PHB) and cards")
    assert (found.as_json()["expected"], found.as_json()["last_proof"]) == (None, None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pair(A, B, 12.9), pair(A, C, 12.9)),
        (pair(A, B, 11.7), pair(A, C, 13.0)),  # exactly a tenth is noise
        (pair(A, B, 26.0, "PIX"), pair(A, C, 12.0, "SYS")),
        (pair(A, B, 45.0, "NV2"), pair(A, C, 22.0, "NV1")),
        (pair(A, B, 45.0, "NV4"), pair(A, C, 12.0, "PHB")),
        (pair(A, B, 26.0, ""), pair(A, C, 12.0, "")),  # the topology could not be read
        (pair(A, B, 26.0), pair(A, C, None)),
        (pair(A, B, 26.0), pair(A, C, 0.0)),
        (pair(A, B, 26.0), pair(A, C, 12.0, verdict="wrong_data")),
        (pair(A, B, 26.0), pair(A, C, 12.0, verdict="slower_than_staged")),
        (pair(A, B, 26.0), pair(A, C, 12.0, verdict="not_granted")),
    ],
)
def test_what_is_as_fast_or_of_another_kind_is_no_warning(one: PairFound, other: PairFound) -> None:
    assert slow(one, other) == ()


def test_other_models_and_other_slots_are_another_kind() -> None:
    pairs = pair(A, B, 26.0), pair(A, C, 12.0)
    mixed = (*RIG.gpus[:2], GpuSeen(C, A6000))

    assert len(slow(*pairs)) == 1
    assert slow(*pairs, answer=replace(RIG, gpus=mixed)) == ()
    assert slow(*pairs, answer=replace(RIG, slots={**RIG.slots, C: Slot(4, 8)})) == ()
    assert slow(*pairs, answer=replace(RIG, slots={A: X16, B: X16})) == ()


def test_slots_do_not_matter_to_nvlink() -> None:
    pairs = pair(A, B, 50.0, "NV4"), pair(B, A, 20.0, "NV4")

    (found,) = slow(*pairs, answer=replace(RIG, slots={A: X16}))

    assert found.expected is not None
    assert found.expected.name == "NVLink bridge RTX 3090 NV4"


@pytest.mark.parametrize(
    ("outcome", "status", "counts"),
    [
        ("proven", "ok", True),
        ("changed", "warn", True),
        ("not_proven", "ok", False),
        ("changed", "fail", False),
    ],
)
def test_the_last_proof_is_the_newest_run_that_passed(
    outcome: str, status: str, *, counts: bool
) -> None:
    old = Run(
        host="rig",
        at="2026-10-01T08:00:00Z",
        inventory_digest="",
        outcome="proven",
        seconds=1.0,
        versions={},
        preflight=Preflight("ok", "L1", LAST.pairs),
    )
    newer = replace(
        old,
        at="2026-11-01T08:00:00Z",
        outcome=outcome,
        preflight=Preflight(status, "L1", (Pair(A, B, "ok", 25.5),)),
    )

    found = last_rates([replace(newer, preflight=None), newer, old])

    assert found is not None
    assert (found.day, found.rate(pair(A, B, 1.0))) == (
        ("2026-11-01", 25.5) if counts else ("2026-10-01", 24.9)
    )
    assert found.rate(pair(B, A, 1.0)) is None
    assert last_rates([]) is None
