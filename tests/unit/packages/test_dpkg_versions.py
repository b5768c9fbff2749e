from __future__ import annotations

import pytest

from rigops.packages.dpkg import compare, nearest


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("2.0", "10.0"),
        ("1.0~rc1", "1.0"),
        ("1.0", "1.0+b1"),
        ("1.0", "1.0a"),
        ("1.0a", "1.0+"),
        ("9:1.0", "10:0.1"),
        ("1.0-1", "1.0-1ubuntu1"),
        ("1.0-1~deb12u1", "1.0-1"),
        ("535.171.04-0ubuntu2", "535.309.01-0ubuntu0.24.04.2"),
        ("1.0-1-1", "1.0-1-2"),
    ],
)
def test_the_newer_version_is_told(older: str, newer: str) -> None:
    assert compare(older, newer) < 0 < compare(newer, older)


def test_versions_that_dpkg_takes_for_equal_are_equal() -> None:
    assert compare("0:1.0", "1.0-0") == 0
    assert compare("1.00", "1.0") == 0


def test_the_nearest_are_the_neighbours_on_both_sides() -> None:
    known = ["10.0", "1.0", "2.0", "2.0~rc1"]

    assert nearest("3.0", known) == ("2.0", "10.0")
    assert nearest("0.1", known) == ("1.0",)
    assert nearest("1.0", []) == ()


def test_numbers_of_any_length_are_compared() -> None:
    long = "9" * 5000

    assert compare(f"1.{long}", "1.2") > 0
    assert compare(f"1.0{long}", f"1.{long}") == 0
    assert compare(f"{long}:1", "1:1") != 0
    assert compare("\u0665:1", "2:1") != 0
