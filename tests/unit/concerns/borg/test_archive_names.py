from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from rigops.concerns.borg.host.archive_names import (
    ArchiveWish,
    archives_of,
    choose_archives,
    free_archive_name,
    parse_archive_wish,
)
from rigops.concerns.borg.host.backing_up import lost_archives, prunable
from rigops.concerns.borg.host.borg_settings import BorgSettings
from rigops.concerns.snapshots.host.btrfs import HostError

NOW = datetime(2026, 11, 25, 6, 0, 1, tzinfo=timezone.utc)
FIRST, SECOND = "rig-20261124T060001Z", "rig-20261125T060001Z"
TORN = "rig-20261123T060001Z.checkpoint"
NAMES = [SECOND, TORN, FIRST, "rig-2-20261125T060001Z", "by-hand", "rig-20261345T060001Z"]


def settings(keep: str = "") -> BorgSettings:
    return BorgSettings("rig", "/mnt/backup/borg", ("/home",), keep=keep)


def test_archives_of_other_hosts_and_of_people_are_left_alone() -> None:
    assert [one.name for one in archives_of("rig", NAMES)] == [TORN, FIRST, SECOND]
    assert [one.name for one in archives_of("rig-2", NAMES)] == ["rig-2-20261125T060001Z"]


def test_a_second_archive_of_the_same_second_gets_the_next_one() -> None:
    assert free_archive_name("rig", NOW, NAMES) == "rig-20261125T060002Z"


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", [SECOND, FIRST]),
        ("2026-11-24T23:00:00Z", [FIRST]),
        ("2026-11-01T00:00:00Z", []),
        (FIRST, [FIRST]),
        (TORN, []),
    ],
)
def test_a_restore_takes_the_newest_whole_one_of_the_time(text: str, chosen: list[str]) -> None:
    found = choose_archives(archives_of("rig", NAMES), parse_archive_wish(text))

    assert [one.name for one in found] == chosen


def test_what_is_neither_a_time_nor_an_archive_is_refused() -> None:
    assert parse_archive_wish("") == ArchiveWish()
    with pytest.raises(HostError, match="neither a time nor an archive"):
        parse_archive_wish("yesterday")


def days(*ages: int) -> list[str]:
    return [f"rig-{NOW - timedelta(days=age):%Y%m%dT%H%M%SZ}" for age in ages]


def test_torn_ones_go_once_a_whole_one_is_newer() -> None:
    assert prunable(settings(), [TORN], NOW) == []
    assert prunable(settings(), [TORN, FIRST], NOW) == [TORN]


def test_without_a_rule_nothing_whole_goes() -> None:
    assert prunable(settings(), days(1, 2, 500), NOW) == []


def test_only_what_retention_keeps_counts_as_lost() -> None:
    seen = days(0, 1, 2, 20)

    assert lost_archives(settings("3d"), seen, days(0, 1, 2), NOW) == []
    assert lost_archives(settings("3d"), seen, days(0, 2), NOW) == days(1)
    assert lost_archives(settings(), seen, days(0, 1, 2), NOW) == days(20)
    assert lost_archives(settings(), [*seen, TORN], seen, NOW) == []
