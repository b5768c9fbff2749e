"""The fake libnccl on the fake libcuda, seen by a program that knows nothing of the lab."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.silicon.cuda.build import NCCL_VERSION
from tests.shards import LAB_ITSELF

if TYPE_CHECKING:
    from tests.unit.lab.cuda_rig import Rig

pytestmark = [
    pytest.mark.shard(LAB_ITSELF),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
]

LARGE = "65536"


@pytest.fixture
def rig(rig: Rig) -> Rig:
    rig.configure(cards=3)
    return rig


def run(rig: Rig, *arguments: str) -> Any:
    return rig.run(*arguments, program="nccl_program")


RIGHT = {"sums": [[111]] * 3, "error": 0}


def test_it_tells_its_version_and_its_errors(rig: Rig) -> None:
    major, minor, patch = NCCL_VERSION
    assert run(rig, "version") == [
        major * 10000 + minor * 100 + patch,
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
    ]


@pytest.mark.parametrize("how", ["init_all", "threads"])
@pytest.mark.parametrize("granted", [0, 1])
def test_the_sum_of_all_ranks_arrives_at_every_rank(rig: Rig, granted: int, how: str) -> None:
    rig.configure(cards=3, granted=granted)
    assert run(rig, LARGE, how) == RIGHT


@pytest.mark.parametrize("behaviour", ["wrong", "mirror", "stale"])
def test_a_bad_pair_spoils_the_sums(rig: Rig, behaviour: str) -> None:
    rig.configure(cards=3, copy=behaviour)
    seen = run(rig, LARGE)

    assert seen["sums"] != RIGHT["sums"]
    assert seen["error"] == 0


def test_a_hang_leaves_every_stream_unfinished(rig: Rig) -> None:
    rig.configure(cards=3, pairs={(0, 1): {"copy": "hang"}})
    assert run(rig, LARGE) == [600, 600, 600]


@pytest.mark.parametrize("behaviour", ["hang", "wrong", "mirror", "stale"])
def test_without_p2p_no_pair_does_harm(rig: Rig, behaviour: str) -> None:
    rig.configure(cards=3, copy=behaviour)
    rig.environment = {"NCCL_P2P_DISABLE": "1"}
    assert run(rig, LARGE) == RIGHT


def test_a_grant_of_one_direction_is_not_used(rig: Rig) -> None:
    rig.configure(cards=2, pairs={(1, 0): {"granted": 0}, (0, 1): {"copy": "hang"}})
    assert run(rig, LARGE) == {"sums": [[11]] * 2, "error": 0}
