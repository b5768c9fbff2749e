"""What a run may remove: nothing on doubt, and never most copies without consent."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.backup.pruning import (
    Clock,
    KnownRuns,
    Occasion,
    choose_pruned,
    describe_runs,
    judge_clock,
    read_runs,
    runs_of_copies,
)

NOW = datetime(2026, 11, 25, 6, tzinfo=timezone.utc)
HOUR, DAY, YEARS = timedelta(hours=1), timedelta(days=1), timedelta(days=5 * 365)
OCCASIONS = st.builds(
    Occasion,
    st.sampled_from([(), ("/data",)]),
    st.sampled_from(["", "the clock is behind"]),
    st.booleans(),
    st.integers(0, 5),
)


@pytest.mark.parametrize(
    ("unwanted", "copies", "occasion", "going", "held"),
    [
        (0, 9, Occasion(missing=("/data",)), 0, ""),
        (3, 9, Occasion(), 3, ""),
        (4, 9, Occasion(), 4, ""),
        (5, 9, Occasion(), 4, "1 more copies go"),
        (8, 9, Occasion(), 4, "4 more copies go"),
        (8, 9, Occasion(has_consent=True), 8, ""),
        (1, 1, Occasion(), 1, ""),
        (2, 3, Occasion(), 1, "1 more copies go"),
        (4, 5, Occasion(removed=4), 0, "4 more copies go"),  # of nine
        (4, 5, Occasion(removed=2), 1, "3 more copies go"),  # of seven, of which three may go
        (2, 9, Occasion(missing=("/data", "/etc")), 0, "is missing: /data, /etc"),
        (2, 9, Occasion(missing=("/data",), has_consent=True), 0, "is missing: /data"),
        (2, 9, Occasion(clock_doubt="odd", has_consent=True), 0, "nothing is removed: odd"),
    ],
)
def test_nothing_goes_on_doubt_and_half_of_the_copies_without_consent(
    unwanted: int, copies: int, occasion: Occasion, going: int, held: str
) -> None:
    names = [f"{number}" for number in range(unwanted)]

    found = choose_pruned(names, copies, occasion)

    assert found.going == tuple(names[:going])  # the oldest
    assert held in found.held
    assert bool(held) is bool(found.held)
    assert ("--prune-most" in found.held) is ("more copies go" in held)


@given(st.integers(0, 40), st.integers(0, 40), OCCASIONS)
def test_a_doubt_never_prunes_more_and_only_consent_prunes_most(
    unwanted: int, kept: int, occasion: Occasion
) -> None:
    names = [f"{number:02}" for number in range(unwanted)]
    copies = unwanted + kept

    found = choose_pruned(names, copies, occasion)

    sure = occasion._replace(missing=(), clock_doubt="")
    assert set(found.going) <= set(choose_pruned(names, copies, sure).going)
    assert list(found.going) == names[: len(found.going)]
    assert bool(found.held) is (len(found.going) < unwanted)
    if not occasion.has_consent:
        most = max(1, (copies + occasion.removed) // 2)
        assert len(found.going) + occasion.removed <= max(most, occasion.removed)


@given(st.integers(1, 200), st.integers(1, 40))
def test_run_after_run_all_that_retention_does_not_keep_goes(unwanted: int, kept: int) -> None:
    left = [f"{number:03}" for number in range(unwanted)]
    runs = 0
    while left:
        going = choose_pruned(left, len(left) + kept, Occasion()).going
        assert going
        left = [name for name in left if name not in going]
        runs += 1

    assert runs <= unwanted


def judged(*runs: datetime, known: datetime | None = None, unsynchronized: str = "") -> Clock:
    """The last of several runs."""
    found = Clock(NOW, KnownRuns(known))
    for now in runs:
        before = read_runs({"clock": describe_runs(found.runs)})
        found = judge_clock(before, now, unsynchronized)
    return found


@pytest.mark.parametrize(
    ("known", "runs", "doubt"),
    [
        (None, [NOW], ""),
        (NOW, [NOW + HOUR], ""),
        (NOW, [NOW + 35 * DAY], ""),
        (NOW, [NOW - timedelta(minutes=2)], ""),
        (NOW, [NOW - timedelta(minutes=3)], "behind"),
        (NOW, [NOW + 36 * DAY], "far beyond"),
        (NOW, [NOW + YEARS, NOW + HOUR], ""),  # a single wrong run changes nothing
        (NOW, [NOW - YEARS, NOW + HOUR], ""),
        (NOW, [NOW + YEARS, NOW + YEARS + 23 * HOUR], "far beyond"),
        (NOW, [NOW + YEARS, NOW + YEARS + 24 * HOUR], ""),  # it was off for so long
        (NOW, [NOW + YEARS, NOW + YEARS + 24 * HOUR, NOW + YEARS + 25 * HOUR], ""),
        (NOW, [NOW + YEARS + DAY, NOW + YEARS, NOW + YEARS + 23 * HOUR], "far beyond"),
        (NOW, [NOW - YEARS, NOW - YEARS + DAY], ""),  # it was the one before that was wrong
        (NOW, [NOW - YEARS, NOW + YEARS], "far beyond"),  # they do not agree
        (NOW, [NOW + YEARS, NOW - DAY], "behind"),
    ],
)
def test_a_clock_that_is_odd_is_believed_once_it_went_on_for_a_day(
    known: datetime | None, runs: list[datetime], doubt: str
) -> None:
    found = judged(*runs, known=known)

    assert (doubt in found.doubt) if doubt else not found.doubt
    assert found.now == (known if doubt else runs[-1])


def test_a_run_whose_clock_is_doubted_is_no_known_run() -> None:
    assert judged(NOW + YEARS, known=NOW).runs.newest == NOW
    assert judged(NOW + YEARS, NOW + HOUR, known=NOW).runs == KnownRuns(NOW + HOUR)
    assert judged(NOW + YEARS, NOW + HOUR, NOW + YEARS + DAY, known=NOW).doubt
    assert judged(NOW - timedelta(minutes=1), known=NOW).runs == KnownRuns(NOW)


def test_a_clock_that_its_service_has_not_set_is_no_known_run_either() -> None:
    found = judged(NOW + HOUR, known=NOW, unsynchronized="chronyd")

    assert found == Clock(NOW + HOUR, KnownRuns(NOW), "chronyd has not synchronized the clock")
    assert judged(NOW + YEARS, known=NOW, unsynchronized="chronyd").now == NOW


def test_the_state_of_an_older_version_or_else_the_copies_are_what_is_known() -> None:
    assert read_runs({"at": "2026-11-25T06:00:00Z"}) == KnownRuns(NOW)
    assert read_runs({"at": "2026-11-25T06:00:00Z", "clock": {}}) == KnownRuns()
    assert runs_of_copies([NOW - DAY, NOW - HOUR, NOW + YEARS], NOW) == KnownRuns(NOW - HOUR)
    assert runs_of_copies([NOW + YEARS], NOW) == KnownRuns()


@given(st.lists(st.integers(-3000, 3000), min_size=1, max_size=12))
def test_whatever_single_run_comes_between_the_next_right_one_is_believed(
    hours: list[int],
) -> None:
    before = KnownRuns(NOW)
    for hour in hours:
        wrong = NOW + hour * 24 * HOUR
        clock = judge_clock(before, wrong)
        if clock.doubt:
            right = judge_clock(clock.runs, NOW + HOUR)
            assert right == Clock(NOW + HOUR, KnownRuns(NOW + HOUR))
