"""Which snapshots a retention keeps."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.backup.retention import Rule, due, longest_pause, parse_rule, reasons_to_keep
from rigops.inventory.spec.faults import RefusedError
from rigops.inventory.spec.storage import keep

if TYPE_CHECKING:
    from datetime import tzinfo
    from random import Random

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = st.sampled_from([timezone.utc, BERLIN, ZoneInfo("Australia/Lord_Howe")])
COUNTS = st.integers(0, 6)
RULES = st.builds(Rule, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
NOWS = st.timedeltas(timedelta(0), timedelta(days=3000)).map(
    lambda passed: datetime(2022, 1, 1, tzinfo=timezone.utc) + passed
)
AGES = st.one_of(
    st.timedeltas(timedelta(0), timedelta(hours=12)),
    st.timedeltas(timedelta(0), timedelta(days=30)),
    st.timedeltas(timedelta(0), timedelta(days=1500)),
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[datetime], datetime]:
    """A few are later than now."""
    now = draw(NOWS)
    ages = draw(st.lists(AGES, max_size=40))
    return [now + age if n % 9 == 8 else now - age for n, age in enumerate(ages)], now


def local(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


@given(histories(), RULES, ZONES)
def test_the_newest_and_what_is_later_than_now_stay(
    history: tuple[list[datetime], datetime], rule: Rule, zone: tzinfo
) -> None:
    times, now = history
    past = [time for time in times if time <= now]

    staying = reasons_to_keep(times, rule, now, zone=zone)

    assert not past or max(past) in staying
    assert {time for time in times if time > now} <= staying.keys()


@given(histories(), RULES, ZONES)
def test_what_is_later_than_now_takes_no_place_of_an_older_one(
    history: tuple[list[datetime], datetime], rule: Rule, zone: tzinfo
) -> None:
    times, now = history
    past = [time for time in times if time <= now]

    alone = reasons_to_keep(past, rule, now, zone=zone)

    assert alone.items() <= reasons_to_keep(times, rule, now, zone=zone).items()


@given(histories(), RULES, ZONES)
def test_pruned_again_nothing_more_goes(
    history: tuple[list[datetime], datetime], rule: Rule, zone: tzinfo
) -> None:
    times, now = history
    once = reasons_to_keep(times, rule, now, zone=zone)

    assert reasons_to_keep(list(once), rule, now, zone=zone) == once


@given(histories(), RULES, ZONES, AGES)
def test_pruned_now_and_later_is_pruned_later(
    history: tuple[list[datetime], datetime], rule: Rule, zone: tzinfo, passed: timedelta
) -> None:
    times, now = history
    later = now + passed
    before = list(reasons_to_keep(times, rule, now, zone=zone))

    assert reasons_to_keep(before, rule, later, zone=zone) == reasons_to_keep(
        times, rule, later, zone=zone
    )


@given(histories(), RULES, ZONES, st.randoms(use_true_random=False))
def test_the_order_of_the_times_changes_nothing(
    history: tuple[list[datetime], datetime], rule: Rule, zone: tzinfo, chance: Random
) -> None:
    times, now = history
    shuffled = chance.sample(times, len(times))

    assert list(reasons_to_keep(shuffled, rule, now, zone=zone).items()) == list(
        reasons_to_keep(times, rule, now, zone=zone).items()
    )


@given(histories(), RULES, ZONES)
def test_of_each_unit_the_present_one_and_as_many_as_the_rule_says_stay(
    history: tuple[list[datetime], datetime], rule: Rule, zone: tzinfo
) -> None:
    times, now = history
    reasons = [one for why in reasons_to_keep(times, rule, now, zone=zone).values() for one in why]

    for name, count in rule._asdict().items():
        assert reasons.count(name) <= (count + 1 if count else 0) or not any(rule)


@given(histories(), RULES, ZONES)
def test_one_that_is_due_stays_when_it_is_taken(
    history: tuple[list[datetime], datetime], rule: Rule, zone: tzinfo
) -> None:
    times, now = history
    past = [time for time in times if time < now]
    if any(rule) and due(max(past, default=None), rule, now, zone=zone):
        finest = next(name for name, count in rule._asdict().items() if count)

        assert finest in reasons_to_keep([*past, now], rule, now, zone=zone)[now]


def test_the_reasons_are_named() -> None:
    friday, sunday = local("2026-06-05T12:00"), local("2026-06-07T00:10")
    now = local("2026-06-07T10:00")

    found = reasons_to_keep([friday, sunday], Rule(hourly=24, daily=1, weekly=2), now, zone=BERLIN)

    assert found == {friday: ("weekly",), sunday: ("newest", "hourly", "daily", "weekly")}


def test_a_day_begins_at_midnight_of_the_local_clock() -> None:
    late, early = local("2026-06-01T23:50"), local("2026-06-02T00:10")

    assert len(reasons_to_keep([late, early], Rule(daily=3), early, zone=BERLIN)) == 2
    assert len(reasons_to_keep([late, early], Rule(daily=3), early, zone=timezone.utc)) == 2
    assert due(late, Rule(daily=3), early, zone=BERLIN)
    assert not due(late, Rule(daily=3), early, zone=timezone.utc)


def test_the_hour_that_comes_twice_is_one_and_the_one_that_is_left_out_is_none() -> None:
    twice = [datetime(2026, 10, 25, hour, 30, tzinfo=timezone.utc) for hour in (0, 1, 2)]
    left_out = [datetime(2026, 3, 29, hour, 30, tzinfo=timezone.utc) for hour in (0, 1, 2)]

    assert [*reasons_to_keep(twice, Rule(hourly=9), twice[-1], zone=BERLIN)] == [twice[0], twice[2]]
    assert [*reasons_to_keep(left_out, Rule(hourly=9), left_out[-1], zone=BERLIN)] == left_out


def test_a_day_of_25_hours_is_one_day() -> None:
    days = [local(f"2026-10-{day}T00:30") for day in (24, 25, 26)]

    assert [*reasons_to_keep(days, Rule(daily=2), days[-1], zone=BERLIN)] == days
    assert [*reasons_to_keep(days, Rule(daily=1), days[-1], zone=BERLIN)] == days[1:]


def test_a_host_that_was_off_for_weeks_still_has_what_its_rule_reaches() -> None:
    last = local("2026-05-01T00:00")
    taken = [last - timedelta(days=day) for day in range(30)]

    found = reasons_to_keep(taken, parse_rule("7d 8w"), last + timedelta(weeks=4), zone=BERLIN)

    assert found[last] == ("newest",)
    assert len([why for why in found.values() if "weekly" in why]) == 5


@pytest.mark.parametrize("rule", [None, Rule()])
def test_without_a_rule_all_stay_and_only_the_first_is_due(rule: Rule | None) -> None:
    now = local("2026-06-07T10:00")
    times = [now - timedelta(minutes=minute) for minute in range(9)]

    assert reasons_to_keep(times, rule, now).keys() == set(times)
    assert due(None, rule, now)
    assert not due(times[-1], rule, now + timedelta(days=999))


def test_one_of_the_future_does_not_stop_the_timer() -> None:
    now = local("2026-06-07T10:00")

    assert due(now + timedelta(days=400), Rule(daily=7), now)


@given(histories(), RULES, ZONES)
def test_after_the_longest_pause_one_is_due(
    history: tuple[list[datetime], datetime], rule: Rule, zone: tzinfo
) -> None:
    _, now = history
    pause = longest_pause(rule) + timedelta(days=8)  # a week belongs to the month of its Sunday

    assert due(now - pause, rule, now, zone=zone) == any(rule)


def test_a_new_slot_of_the_finest_unit_is_due() -> None:
    now = local("2026-06-07T10:00")  # a Sunday

    assert not due(local("2026-06-07T00:00"), Rule(daily=7, weekly=4), now, zone=BERLIN)
    assert due(local("2026-06-06T23:59"), Rule(weekly=4), now, zone=BERLIN)
    assert not due(
        local("2026-05-31T00:00"), Rule(weekly=4), local("2026-06-06T23:59"), zone=BERLIN
    )
    assert due(local("2026-06-06T23:59"), Rule(monthly=4), now, zone=BERLIN)


@given(
    st.lists(
        st.builds("{}{}".format, st.integers(0, 10_000), st.sampled_from("hdwmy ")), max_size=5
    )
)
def test_the_grammar_is_that_of_the_inventory(parts: list[str]) -> None:
    text = " ".join(parts)
    try:
        wanted = keep(text)
    except RefusedError:
        with pytest.raises(ValueError, match=r"."):
            parse_rule(text)
    else:
        assert parse_rule(text)._asdict() == vars(wanted)
