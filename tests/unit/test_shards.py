from __future__ import annotations

from tests import shards
from tests.shards import SHARDS, Shard
from tests.tiers import ROOT

LONGEST_MINUTES = 30


def test_each_has_tests_looks_at_folders_that_exist_and_is_short() -> None:
    for shard in SHARDS:
        constant = next(name for name, value in vars(shards).items() if value == shard.name)
        mark = "@given" if shard.name == shards.PROPERTIES else f"shard({constant})"
        modules = [path for folder in shard.folders for path in (ROOT / folder).rglob("*.py")]

        assert any(mark in path.read_text().replace("shards.", "") for path in modules), shard.name
        assert [area for area in shard.areas if not (ROOT / area).exists()] == []
        assert shard.minutes <= LONGEST_MINUTES


def test_those_of_changed_files_are_touched_the_shortest_first() -> None:
    files = ["src/rigops/transport/ssh.py", "src/rigops/transporter.py"]

    names = [shard.name for shard in shards.touched(files)]

    assert names[0] == shards.LAB_TRANSPORT
    assert {shards.LAB_FLEET, shards.ATTACK} < set(names)
    assert shards.LAB_BORG not in names
    assert shards.touched([]) == []


def test_those_fit_that_take_no_longer_together() -> None:
    asked = [Shard(name, minutes, ()) for name, minutes in (("a", 5), ("b", 9), ("c", 16))]

    assert [shard.name for shard in shards.that_fit(asked, 14)] == ["a", "b"]
    assert [shard.name for shard in shards.that_fit(asked, 13)] == ["a"]
