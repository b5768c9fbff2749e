from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.catalog import versions

_THREE_PARTS = st.tuples(
    st.integers(min_value=300, max_value=999),
    st.integers(min_value=1, max_value=300),
    st.integers(min_value=0, max_value=20),
)


@pytest.mark.parametrize(
    "written",
    ["535.54.03", "545.23.06", "535.309.01", "470.82.00", "570.144", "580.142", "565.77"],
)
def test_a_version_is_printed_as_nvidia_writes_it(written: str) -> None:
    assert versions.spelled(versions.parse(written)) == written


def test_a_version_typed_without_its_zero_is_printed_with_it() -> None:
    assert versions.spelled("535.54.3") == "535.54.03"


def test_versions_compare_as_numbers() -> None:
    written = ["535.261.03", "535.54.03", "545.23.08", "535.104.05", "470.256.02"]

    ordered = sorted(written, key=versions.parse)

    assert ordered == ["470.256.02", "535.54.03", "535.104.05", "535.261.03", "545.23.08"]


@pytest.mark.parametrize(
    "text", ["", "535", "535.", "v535.54.03", "535.54.03-1", "535.x.1", "535.54.03.01", "1.5e3"]
)
def test_what_is_no_driver_version_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"535\.54\.03"):
        versions.parse(text)


def test_the_branch_is_the_first_number() -> None:
    assert versions.branch_of("535.261.03") == "535"


def test_a_version_that_was_never_released_has_its_neighbours_named() -> None:
    known = ["535.183.01", "535.161.08", "535.171.04", "545.23.06"]

    assert versions.nearest("535.172.04", known) == ("535.171.04", "535.183.01")


def test_a_known_version_is_its_own_neighbour() -> None:
    assert versions.nearest("535.54.3", ["535.54.03", "535.86.05"]) == ("535.54.03",)


def test_neighbours_stay_within_the_branch() -> None:
    assert versions.nearest("535.900.01", ["535.309.01", "545.23.06"]) == ("535.309.01",)


def test_a_branch_nobody_knows_gets_the_neighbours_there_are() -> None:
    assert versions.nearest("540.10.01", ["535.309.01", "545.23.06"]) == ("535.309.01", "545.23.06")


def test_nothing_known_means_no_neighbour() -> None:
    assert versions.nearest("535.54.03", []) == ()


@pytest.mark.parametrize(
    ("specifier", "version", "expected"),
    [
        ("<525.105.17", "525.89.02", True),
        ("<525.105.17", "525.105.17", False),
        (">=535.104.05,<=535.154.05", "535.129.03", True),
        (">=535.104.05,<=535.154.05", "535.161.07", False),
        ("", "999.1", True),
    ],
)
def test_a_specifier_names_versions_by_number(
    specifier: str, version: str, *, expected: bool
) -> None:
    assert versions.matches(specifier, versions.parse(version)) is expected


@given(_THREE_PARTS)
def test_every_version_survives_being_printed_and_read(parts: tuple[int, int, int]) -> None:
    first, second, third = parts
    written = f"{first}.{second}.{third:02d}"

    assert versions.spelled(written) == written
    assert versions.spelled(versions.spelled(written)) == written


@given(_THREE_PARTS, _THREE_PARTS)
def test_versions_order_like_their_numbers(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    parsed_one, parsed_other = (
        versions.parse(".".join(str(part) for part in parts)) for parts in (one, other)
    )

    assert (parsed_one < parsed_other) is (one < other)


@given(st.lists(_THREE_PARTS, min_size=1), _THREE_PARTS)
def test_no_known_version_lies_between_the_neighbours(
    known: list[tuple[int, int, int]], wanted: tuple[int, int, int]
) -> None:
    written = [f"{first}.{second}.{third:02d}" for first, second, third in known]
    version = versions.parse(".".join(str(part) for part in wanted))
    own_branch = [one for one in written if versions.branch_of(one) == str(wanted[0])] or written

    found = [versions.parse(one) for one in versions.nearest(version, written)]

    assert len(found) in {1, 2}
    if version not in found:
        between = [one for one in map(versions.parse, own_branch) if min(found) < one < max(found)]
        assert between == []
        assert all(one in map(versions.parse, own_branch) for one in found)
