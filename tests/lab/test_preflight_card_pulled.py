"""A card is pulled at each step of preflight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.sshd import until
from tests.lab.test_preflight_on_rigs import begin, finish
from tests.shards import LAB_PREFLIGHT

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import Popen

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_PREFLIGHT)

PULLED = "0000:42:00.0"  # the second card: of the first pair, and not of all
AT_STEP = "/run/rigsim/at-step"
# What the simulated driver waits at, and the rung that it is on.
OF_A_PAIR = {
    "copy": "L1",
    "rigops_store": "L2",
    "rigops_ping_pong": "L3",
    "ipc": "L5",
}
ALL_AT_ONCE = "crowd"
REDUCING = ("all-reduce", "all-reduce-p2p")
STEPS = (*OF_A_PAIR, ALL_AT_ONCE, *REDUCING)


@pytest.fixture(scope="module")
def cards(module_lab: Lab) -> Host:
    """Three 3090 that reach each other, with a good driver and an IOMMU that passes through."""
    return module_lab.one(
        "threadripper-3x3090", "driver=535.261.03", "p2p=granted", "iommu=passthrough"
    )


def begin_until(step: str, host: Host, folder: Path) -> Popen[str]:
    host.run(f"rm -f {AT_STEP} /run/rigsim/gpu/*/lost")  # else a card stays lost until power is cut
    host.set(f"waits={step}", "lost=")
    process = begin(host, folder)

    def reached() -> bool:
        assert process.poll() is None, process.communicate()
        return host.run(f"test -e {AT_STEP}").returncode == 0

    until(reached, step)
    return process


def verdicts(found: dict[str, Any]) -> dict[tuple[str, str], tuple[str, str]]:
    return {(one["from"], one["to"]): (one["verdict"], one["level"]) for one in found["pairs"]}


def test_a_card_that_is_pulled_before_the_copies_is_not_theirs(cards: Host, tmp_path: Path) -> None:
    process = begin_until("init", cards, tmp_path)
    cards.set(f"lost={PULLED}")
    cards.set("waits=")

    code, found = finish(process)

    assert (code, found["status"], found["changes"]) == (1, "fail", None)
    assert found["reasons"][0].startswith("card 42:00.0 is lost since ")
    assert {verdict for verdict, _ in verdicts(found).values()} == {"skipped"}


@pytest.mark.parametrize("step", STEPS)
def test_a_card_is_pulled(cards: Host, tmp_path: Path, step: str) -> None:
    process = begin_until(step, cards, tmp_path)
    cards.set(f"lost={PULLED}")
    cards.set("waits=")

    code, found = finish(process)

    assert (code, found["status"]) == (1, "fail")
    assert f"during the copies: {PULLED} has left the bus" in found["reasons"]
    by_pair = verdicts(found)
    assert len(by_pair) == 6
    assert {end for pair, end in by_pair.items() if PULLED not in pair} == {("ok", "L5")}
    of_card = [end for pair, end in by_pair.items() if PULLED in pair]
    if step in REDUCING:
        assert set(of_card) == {("ok", "L5")}
        assert found["collectives"] == ("not proven" if step == "all-reduce" else "failed")
        return
    rung = "L4" if step == ALL_AT_ONCE else OF_A_PAIR[step]
    rest = rung if rung in {"L4", "L5"} else "L1"
    assert of_card == [("error", rung), *[("error", rest)] * 3]
