from __future__ import annotations

import pytest

from tests import shards
from tests.shards import SHARDS, Shard
from tests.tiers import ROOT

LONGEST_MINUTES = 30


@pytest.mark.parametrize("shard", SHARDS, ids=shards.NAMES)
def test_it_has_tests_looks_at_folders_that_exist_and_is_short(shard: Shard) -> None:
    constant = next(name for name, value in vars(shards).items() if value == shard.name)
    mark = "@given" if shard.name == shards.PROPERTIES else f"mark.shard({constant})"
    texts = [path.read_text() for path in (ROOT / shard.folder).rglob("test_*.py")]

    assert any(mark in text for text in texts)
    assert [area for area in shard.areas if not (ROOT / area).exists()] == []
    assert shard.minutes <= LONGEST_MINUTES


def test_shards_whose_area_changed_come_first_and_the_turn_says_who_begins() -> None:
    every = [shard.name for shard in SHARDS]
    touched = ["src/rigops/transport/ssh.py", "src/rigops/transporter.py"]

    def names(changed: list[str], turn: int) -> list[str]:
        return [shard.name for shard in shards.in_turn(changed, turn)]

    assert names([], 0) == every
    assert names([], len(every) + 2) == [*every[2:], *every[:2]]
    assert names(touched, 0)[:2] == [shards.LAB_TRANSPORT, shards.LAB_FLEET]
    # The shortest first, whoever's turn it is.
    assert names(touched, every.index(shards.LAB_FLEET))[:2] == [
        shards.LAB_TRANSPORT,
        shards.LAB_FLEET,
    ]
    assert sorted(names(touched, 5)) == sorted(every)


def test_a_shard_that_does_not_fit_makes_room_for_a_shorter_one() -> None:
    left = iter([20.0, 15.0, 9.0])
    asked = [Shard(name, minutes, ()) for name, minutes in (("a", 5), ("b", 16), ("c", 9))]

    assert [shard.name for shard in shards.that_fit(asked, lambda: next(left))] == ["a", "c"]
