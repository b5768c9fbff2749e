"""What finds faults: without it, a fault that it finds goes unnoticed or by another name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.shards import PREFLIGHT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.unit.preflight.rigs import Rig


pytestmark = pytest.mark.shard(PREFLIGHT)


class Without(NamedTuple):
    changes: Mapping[str, str]  # of the program's text
    fault: Mapping[str, Any]
    verdict: str
    then: str


OWNER_READS = {
    "self._classify(self._target.read(self._pair.to, size), number)\n        intact": (
        "self._classify(self._writer_reads(size), number)\n        intact"
    ),
    "arrived = _arrived(pair, size, words)": "arrived = True",
    "owner = target.load(at, count, words)": "owner = source.load(at, count, words)",
}

CASES = {
    "poison": Without(
        {"self.target.fill(self.guarded, POISON, size + 2 * GUARD)": "pass"},
        {"copy": "mirror"},
        "mirror",
        "wrong_data",
    ),
    "guard words": Without(
        {"ends = (self.guarded, self.to + size)": "ends = ()"},
        {"copy": "overrun"},
        "wrong_data",
        "ok",
    ),
    "reading by the owner": Without(OWNER_READS, {"copy": "mirror"}, "mirror", "wrong_data"),
    "pass numbers": Without(
        {"self._passes += 1\n        return self._passes": "return 1"},
        {"copy": "stale"},
        "wrong_data",
        "unstable",
    ),
    "the control arm": Without(
        {"if not control.right:": "if False:"}, {"corrupt": 0}, "hardware", "wrong_data"
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_without_it_the_fault_has_not_its_name(rig: Rig, what: str) -> None:
    case = CASES[what]
    rig.write(**case.fault)

    assert rig.run().pair(0, 1)["verdict"] == case.verdict
    assert rig.run(changes=case.changes).pair(0, 1)["verdict"] == case.then


def test_a_fault_of_a_card_s_own_memory_is_none_of_the_pair(rig: Rig) -> None:
    """Its owner reads it as well, so that what is wrong without peers is known as that."""
    rig.write(corrupt=1)

    pair = rig.run(changes=CASES["the control arm"].changes).pair(0, 1)

    assert (pair["verdict"], pair["level"]) == ("hardware", "L2")
    assert any("its own memory" in line for line in pair["evidence"])
