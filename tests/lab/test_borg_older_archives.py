"""The drill reads older archives too: what only they have is damaged here, and found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.lab.borg_host import LIVE, REPOSITORY, BorgHost
from tests.shards import LAB_BORG

if TYPE_CHECKING:
    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(LAB_BORG)

RIG: Final = "epyc-8x4090"
# A byte of the largest one is another one.
CORRUPT: Final = """
import os
path = max(SEGMENTS, key=os.path.getsize)
with open(path, "r+b") as file:
    file.seek(os.path.getsize(path) // 2)
    byte = file.read(1)
    file.seek(-1, 1)
    file.write(bytes([byte[0] ^ 255]))
"""


@pytest.fixture(scope="module")
def on(module_lab: Lab) -> BorgHost:
    found = BorgHost(module_lab.one(RIG))
    found.install()
    return found


def test_damage_that_only_an_older_archive_meets_is_found_when_its_turn_comes(
    on: BorgHost,
) -> None:
    on.begin()
    first = on.archives()[0]
    before = set(on.does(f"ls {REPOSITORY}/data/*/*").split())
    on.does(f"head -c 3000000 /dev/urandom >{LIVE}/only-once")
    assert on.run("backup").code == 0
    (second,) = set(on.archives()) - {first}
    added = sorted(set(on.does(f"ls {REPOSITORY}/data/*/*").split()) - before)
    on.does(f"rm {LIVE}/only-once")
    on.python(CORRUPT.replace("SEGMENTS", repr(added)))

    drills = [on.run("drill") for _ in range(3)]

    older = drills[0].result["drill"]["older"]
    assert (drills[0].code, older["archive"], older["result"]) == (0, first, "ok"), drills[0].text
    assert older["files"] > 0
    for one in drills[1:]:  # it stays in mind
        assert one.code == 1, one.text
        assert f"(in {second}, an older archive)" in one.text
        assert "damage" in one.text
        assert "do not repair it before that" in one.text
    state = on.state()
    assert (state["older_drill"]["archive"], state["last_drill"]["result"]) == (second, "failed")
