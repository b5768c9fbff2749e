"""NCCL's all-reduce on silicon, with one rank: two ranks on one card are refused by NCCL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.hostside.p2p.collectives import prove_collectives
from rigops.hostside.p2p.verdict import PROVEN
from tests.shards import SILICON
from tests.silicon import cards

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.hostside.p2p.card import Gpu

pytestmark = pytest.mark.shard(SILICON)


def test_sums_of_one_rank_are_exact_with_p2p_and_without(
    gpu: Gpu, record_property: Callable[[str, object], None]
) -> None:
    found = prove_collectives(
        [gpu],
        find=cards.run,
        try_arm=cards.run,
        why_not=lambda: "",
        why_not_p2p=lambda: "",
    )
    if not found["library"]:
        pytest.skip(f"all-reduce: {found['evidence'][0]}")

    assert found["verdict"] == PROVEN, str(found)
    assert ["all sums exact" in line for line in found["evidence"]] == [True, True], str(found)
    record_property("all-reduce of one rank", f"libnccl {found['version']}, all sums exact")
