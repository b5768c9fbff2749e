"""Which snapshot a restore takes."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from rigops.backup.host.errors import HostError
from rigops.backup.host.mounted import parse_mounts
from rigops.concerns.snapshots.host.choosing import (
    nearest_to,
    order_candidates,
    parse_when,
    subvolume_with,
)

FIRST, SECOND, APPLY, BACK = (
    "20261124T060001Z-timer",
    "20261125T060001Z-manual",
    "20261125T070000Z-apply",
    "20261125T080000Z-rollback",
)
NOW = datetime(2026, 11, 26, tzinfo=timezone.utc)
NAMES = [SECOND, FIRST, BACK, APPLY, "notes", SECOND]


def test_without_a_time_it_is_the_newest_but_never_what_a_restore_put_aside() -> None:
    assert order_candidates(NAMES, parse_when(""), NOW) == [APPLY, SECOND, FIRST]


def test_one_from_the_future_after_a_clock_was_wrong_is_the_last() -> None:
    future = "20311125T060001Z-timer"

    found = order_candidates([*NAMES, future], parse_when(""), NOW)

    assert found == [APPLY, SECOND, FIRST, future]
    assert order_candidates([*NAMES, future], parse_when(future), NOW) == [future]


def test_with_a_time_it_is_the_newest_at_or_before_it() -> None:
    assert order_candidates(NAMES, parse_when("2026-11-25T06:00:01Z"), NOW) == [SECOND, FIRST]
    assert order_candidates(NAMES, parse_when("2026-11-25T06:00:00Z"), NOW) == [FIRST]
    assert order_candidates(NAMES, parse_when("2026-11-24T06:00:00Z"), NOW) == []


def test_a_name_is_that_one_alone_and_can_be_one_that_was_put_aside() -> None:
    assert order_candidates(NAMES, parse_when(BACK), NOW) == [BACK]
    assert order_candidates(NAMES, parse_when("20261101T000000Z-timer"), NOW) == []


def test_the_nearest_are_on_both_sides() -> None:
    assert nearest_to(NAMES, parse_when("2026-11-24T12:00:00Z")) == [FIRST, SECOND, APPLY]


def test_anything_else_is_no_time() -> None:
    with pytest.raises(HostError, match="neither a time nor a snapshot"):
        parse_when("soon")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/home/me/x", "/home"),
        ("/home", "/home"),
        ("/homes/x", "/"),
        ("/home/vm/disk", "/home/vm"),
        ("/", "/"),
    ],
)
def test_the_innermost_subvolume_has_the_path(path: str, found: str) -> None:
    assert subvolume_with(path, ["/", "/home", "/home/vm"]) == found


def test_without_the_root_a_path_can_be_in_none() -> None:
    assert subvolume_with("/etc/x", ["/home"]) is None


def test_a_mount_has_its_options_without_the_subvolume() -> None:
    line = (
        "36 25 0:31 /@home /home\\040x rw,noatime shared:9 - btrfs /dev/sda2 "
        "rw,compress=zstd:3,subvolid=257,subvol=/@home\nnonsense\n"
    )

    (mount,) = parse_mounts(line)
    assert mount == (
        *(36, "/@home", "/home x", "btrfs", "/dev/sda2"),
        "rw,noatime,compress=zstd:3",
    )
