from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.backup.host.errors import HostError
from rigops.backup.pruning import Occasion
from rigops.concerns.borg.host.archive_names import (
    ArchiveWish,
    archives_of,
    choose_archives,
    free_archive_name,
    may_lack_some,
    parse_archive_name,
    parse_archive_wish,
)
from rigops.concerns.borg.host.archive_retention import lost_archives, plan_pruning
from rigops.concerns.borg.host.borg_settings import BorgSettings

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
    found = choose_archives(archives_of("rig", NAMES), parse_archive_wish(text), NOW)

    assert [one.name for one in found] == chosen


def test_what_is_neither_a_time_nor_an_archive_is_refused() -> None:
    assert parse_archive_wish("") == ArchiveWish()
    with pytest.raises(HostError, match="neither a time nor an archive"):
        parse_archive_wish("yesterday")


def days(*ages: int) -> list[str]:
    return [f"rig-{NOW - timedelta(days=age):%Y%m%dT%H%M%SZ}" for age in ages]


def partial(*ages: int) -> list[str]:
    return [f"{name}.partial" for name in days(*ages)]


def pruned(keep: str, names: list[str], **occasion: Any) -> list[str]:
    given = Occasion(**{"has_consent": True, **occasion})
    return list(plan_pruning(settings(keep), names, NOW, given).going)


def test_torn_ones_go_once_a_whole_one_is_newer() -> None:
    assert pruned("", [TORN]) == []
    assert pruned("", [TORN, FIRST]) == [TORN]
    assert pruned("", [TORN, FIRST], missing=("/home",)) == []
    assert pruned("", [TORN, *days(-500)]) == []  # one from the future is not newer


def test_without_a_rule_nothing_whole_goes() -> None:
    assert pruned("", days(1, 2, 500)) == []
    assert pruned("", [*days(0), *partial(1, 2, 500)]) == []


def test_a_partial_one_is_somebody_elses_to_older_versions_and_ours_to_this_one() -> None:
    name = free_archive_name("rig", NOW, NAMES, is_partial=True)

    assert name == "rig-20261125T060002Z.partial"
    assert re.fullmatch(r".+-[0-9]{8}T[0-9]{6}Z(\.checkpoint\S*)?", name) is None
    assert free_archive_name("rig", NOW, [*NAMES, name]) == "rig-20261125T060003Z"
    found = parse_archive_name(name)
    assert found is not None
    assert (found.is_complete, found.is_partial, found.is_whole) == (True, True, False)
    torn = parse_archive_name(f"{name}.checkpoint")
    assert torn is not None
    assert not torn.is_complete


def test_whole_ones_stay_as_if_there_were_no_partial_ones() -> None:
    whole, others = days(5, 6, 20), partial(0, 1, 2, 3, 4)

    assert pruned("3d", [*whole, *others]) == pruned("3d", whole) == sorted(days(6, 20))


def test_partial_ones_go_by_the_same_rule_and_only_once_a_whole_one_is_newer() -> None:
    others = partial(1, 2, 10, 20)

    assert pruned("3d", others) == []
    assert pruned("3d", [*days(15), *others]) == partial(20)
    assert pruned("3d", [*days(0), *others]) == sorted(partial(10, 20))
    assert pruned("3d", [*days(0), *partial(10)]) == partial(10)


def test_the_oldest_half_goes_first_and_the_rest_at_the_next_runs() -> None:
    names = days(*range(8))

    first = plan_pruning(settings("1d"), names, NOW, Occasion())

    assert list(first.going) == sorted(days(4, 5, 6, 7))
    assert "2 more copies go at the next runs" in first.held


@pytest.mark.parametrize(
    ("path", "declared", "expected"),
    [
        ("/etc", ("/etc", "/data/home"), False),
        ("/data/home/me", ("/", "/data/home"), False),
        ("/data/home", ("/", "/data/home"), True),  # an empty folder in the one of /
        ("/data", ("/", "/data/home"), True),
        ("/", ("/", "/data/home"), True),
        ("/home2", ("/home", "/etc"), False),
    ],
)
def test_a_partial_archive_serves_a_path_that_it_has_all_of(
    path: str, declared: tuple[str, ...], *, expected: bool
) -> None:
    assert may_lack_some(path, declared) is expected


def test_a_restore_prefers_the_newest_and_a_whole_one_where_a_partial_one_may_have_less() -> None:
    names = [*partial(0), *days(1), *days(-500), *partial(2)]
    mine = archives_of("rig", names)

    found = [
        [one.name for one in choose_archives(mine, ArchiveWish(), NOW, whole_first=first)]
        for first in (False, True)
    ]

    assert found[0] == [*partial(0), *days(1), *partial(2), *days(-500)]
    assert found[1] == [*days(1), *partial(0), *partial(2), *days(-500)]


def test_only_what_retention_keeps_counts_as_lost() -> None:
    seen = days(0, 1, 2, 20)

    assert lost_archives(settings("3d"), seen, days(0, 1, 2), NOW) == []
    assert lost_archives(settings("3d"), seen, days(0, 2), NOW) == days(1)
    assert lost_archives(settings(), seen, days(0, 1, 2), NOW) == days(20)
    assert lost_archives(settings(), [*seen, TORN], seen, NOW) == []


def test_what_a_run_pruned_before_it_was_killed_is_not_lost() -> None:
    before, made = days(1, 2, 3, 4), days(0)
    pruned_then = pruned("2d", [*before, *made])
    left = [name for name in [*before, *made] if name not in pruned_then]

    assert pruned_then == sorted(days(3, 4))
    assert lost_archives(settings("2d"), before, left, NOW) == []
    assert lost_archives(settings("2d"), before, [*left[1:]], NOW) == left[:1]
    assert lost_archives(settings("1h"), before, made, NOW) == []  # the newest of before too


def test_partial_ones_that_somebody_removed_are_lost_and_hide_no_others() -> None:
    seen = [*days(3), *partial(0, 1, 2)]

    assert lost_archives(settings("7d"), seen, [*days(3), *partial(0, 2)], NOW) == partial(1)
    assert lost_archives(settings("2d"), seen, partial(0, 1, 2), NOW) == days(3)
    assert lost_archives(settings("2d"), [*days(3), *partial(9)], days(0, 3), NOW) == []


@given(
    st.lists(st.integers(0, 400), unique=True, max_size=25),
    st.lists(st.integers(0, 400), unique=True, max_size=10),
    st.sampled_from(["3d", "7d 4w 6m", "1h", "2w 1y"]),
    st.integers(0, 60),
)
def test_neither_the_newest_whole_one_goes_nor_is_anything_that_went_lost(
    ages: list[int], torn_ages: list[int], keep: str, passed: int
) -> None:
    whole, others = days(*ages), partial(*(age for age in torn_ages if age not in ages))
    names = [*whole, *others]
    gone = pruned(keep, names)

    assert max(whole, default="") not in gone
    if whole:
        assert not [name for name in others if name > max(whole) and name in gone]
    left = [name for name in names if name not in gone]
    assert lost_archives(settings(keep), names, left, NOW + timedelta(days=passed)) == []
