"""Preflight's ladder on silicon: kernels, copies, flags, all at once and another process.

One card is taken for two, so that nothing of a link is proven, but all that runs on a card.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rigops.hostside.p2p.ptx import PING_PONG, STORE
from rigops.hostside.p2p.verdict import HIGHEST, OK, REFUSED, STATUS_OF, WARN
from tests.shards import SILICON
from tests.unit.preflight.test_kernels import STORE_MUTANTS, mutant

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rigops.hostside.p2p.card import Gpu
    from tests.silicon.conftest import Prove

pytestmark = pytest.mark.shard(SILICON)

# On one card direct and staged copies take the same way, so which of them is faster is chance.
RIGHT = {"ok", "slower_than_staged"}

WRONG_PTX = mutant(PING_PONG, "membar.sys;", "membar.nonsense;")
WRONG_LINE = WRONG_PTX[: WRONG_PTX.index("membar.nonsense")].count("\n") + 1


def test_one_card_taken_for_two_is_right_on_every_rung(
    prove: Prove, record_property: Callable[[str, object], None]
) -> None:
    for pair in prove("0:1", "1:0", sizes=(4 << 10, 1 << 20, 64 << 20, 256 << 20)):
        assert pair["level"] == HIGHEST, str(pair)
        assert pair["verdict"] in RIGHT, str(pair)
        rate, latency, trip = (pair[n] for n in ("gb_per_s", "latency_us", "round_trip_us"))
        figures = f"copies {rate:.0f} GB/s, latency {latency:.1f} us, flag and answer {trip:.2f} us"
        record_property("one card taken for two, L1 to L5", figures)


@dataclass(frozen=True)
class Broken:
    ptx: str
    verdicts: set[str]
    level: str
    evidence: str


BROKEN = {
    "a stride twice as wide": Broken(
        mutant(STORE, *STORE_MUTANTS["wrong stride of addresses"]),
        {"wrong_data"},
        "L2",
        "16383 of 16384 words wrong",
    ),
    "one word too far": Broken(
        mutant(STORE, *STORE_MUTANTS["one word too many"]),
        {"wrong_data"},
        "L2",
        "1 words beside them were overwritten",
    ),
    "a flag that is never stored": Broken(
        mutant(PING_PONG, "st.volatile.global.u32 [%outbox], %flag;", ""),
        {"hang"},
        "L3",
        "0 of 1000 rounds",
    ),
    "an instruction that there is not": Broken(WRONG_PTX, RIGHT, "L1", f"line {WRONG_LINE}; error"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_kernel_is_found(
    how: str, prove: Prove, record_property: Callable[[str, object], None]
) -> None:
    broken = BROKEN[how]

    (pair,) = prove("0:1", ptx=broken.ptx)

    assert (pair["verdict"] in broken.verdicts, pair["level"]) == (True, broken.level), str(pair)
    assert any(broken.evidence in line for line in pair["evidence"]), str(pair)
    record_property(how, f"found: {broken.evidence}")


def test_pairs_of_real_cards(
    gpus: list[Gpu], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    if len(gpus) == 1:
        pytest.skip("pairs of real cards: there is one card")

    words = [sys.executable, "-m", "rigops", "preflight", "@local", "--yes", "--json"]
    done = subprocess.run(words, cwd=tmp_path, check=False, capture_output=True, text=True)
    (host,) = json.loads(done.stdout)["hosts"]

    for pair in host["pairs"]:
        assert STATUS_OF[pair["verdict"]] in {OK, WARN}, str(pair)
        assert pair["level"] == HIGHEST or pair["verdict"] in REFUSED, str(pair)
    assert len(host["pairs"]) == len(gpus) * (len(gpus) - 1)
    counted = Counter(f"{pair['verdict']} at {pair['level']}" for pair in host["pairs"])
    record_property("pairs", ", ".join(f"{counted[one]} {one}" for one in counted))
    record_property("all-reduce over all cards", host["collectives"])
