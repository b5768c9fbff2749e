from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.concerns.borg.host.archive_contents import ArchivedFile
from rigops.concerns.borg.host.older_drill import choose_older
from rigops.concerns.borg.host.sampling import choose_sample

if TYPE_CHECKING:
    from rigops.concerns.borg.host.borg_documents import OlderDrillNote

FIRST, SECOND, THIRD = (f"rig-202611{day}T060001Z" for day in (23, 24, 25))
PRUNED = "rig-20261123T180001Z"
NAMES = [THIRD, "rig-20261120T060001Z.checkpoint", FIRST, "other-20261101T060001Z", SECOND, "mine"]


@pytest.mark.parametrize(
    ("last", "chosen"),
    [
        ({}, FIRST),
        ({"archive": FIRST, "result": "ok"}, SECOND),
        ({"archive": FIRST, "result": "unfinished"}, SECOND),
        ({"archive": FIRST, "result": "failed"}, FIRST),
        ({"archive": PRUNED, "result": "ok"}, SECOND),
        ({"archive": PRUNED, "result": "failed"}, SECOND),
        ({"archive": THIRD, "result": "ok"}, FIRST),
        ({"archive": "no archive", "result": "ok"}, FIRST),
    ],
)
def test_older_archives_of_this_host_have_their_turn(last: OlderDrillNote, chosen: str) -> None:
    assert choose_older("rig", NAMES, last) == chosen


def test_there_may_be_no_older_archive() -> None:
    assert choose_older("new", NAMES, {}) is None


def test_an_archive_has_the_same_sample_each_time_and_no_more_than_its_bound() -> None:
    files = [ArchivedFile(f"data/{number}", number) for number in range(500)]

    first, again = (choose_sample(files, 2000, FIRST) for _ in range(2))

    assert first == again
    assert 0 < len(first.files) <= 40
    assert first.bytes <= 2000
