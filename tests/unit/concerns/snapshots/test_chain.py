from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.backup.host.snapshot_names import SnapshotName
from rigops.backup.retention import parse_rule
from rigops.concerns.snapshots.host.chain import (
    choose_parents,
    choose_transfers,
    common_copies,
    find_reasons_to_stay,
    is_due,
    newest_common,
)
from rigops.concerns.snapshots.host.creating import free_name
from rigops.concerns.snapshots.host.place import SnapshotCopy

NOW = datetime(2026, 11, 25, 12, 0, 0, tzinfo=timezone.utc)
RULES = st.sampled_from(["1h", "24h 7d 4w", "2d 1m", "3h 1y", ""])


def named(hours_ago: float, kind: str = "timer") -> str:
    return str(SnapshotName(NOW - timedelta(hours=hours_ago), kind))


def copy(name: str, origin: str = "", *, is_complete: bool = True) -> SnapshotCopy:
    return SnapshotCopy(name, f"uuid-{name}", origin or f"origin-{name}", is_complete)


@st.composite
def places(draw: st.DrawFn) -> tuple[list[SnapshotCopy], list[SnapshotCopy]]:
    """What is here, and what is at a target, some of it interrupted or of another origin."""
    ages = draw(st.lists(st.integers(-3, 24 * 60), unique=True, max_size=25))
    kinds = st.sampled_from(["timer", "manual", "apply", "rollback"])
    every = [copy(named(age, draw(kinds)), is_complete=draw(st.integers(0, 9)) > 0) for age in ages]
    there = [one for one in every if draw(st.booleans())]
    there = [
        one._replace(
            origin=one.origin if draw(st.integers(0, 9)) else "another's",
            is_complete=draw(st.integers(0, 9)) > 0,
        )
        for one in there
    ]
    return [one for one in every if draw(st.booleans())], there


def pruned(ours: list[SnapshotCopy], rule: str, parents: set[str], pinned: set[str]) -> set[str]:
    parsed = parse_rule(rule) if rule else None
    found = find_reasons_to_stay(ours, parsed, NOW, parents=parents, pinned=pinned)
    return {name for name, reasons in found.items() if not reasons}


@given(places(), RULES, st.data())
def test_neither_the_newest_nor_a_parent_nor_a_pinned_one_is_pruned(
    both: tuple[list[SnapshotCopy], list[SnapshotCopy]], rule: str, data: st.DataObject
) -> None:
    ours, theirs = both
    pinned = set(data.draw(st.lists(st.sampled_from([one.name for one in ours] or ["x"]))))
    parents = {one.name for one in common_copies(ours, theirs)[-1:]}

    gone = pruned(ours, rule, parents, pinned)

    assert not gone & (parents | pinned)
    complete = sorted(one.name for one in ours if one.is_complete)
    assert not gone & set(complete[-1:])
    past = [name for name in complete if name <= named(0)]
    assert not gone & set(past[-1:])
    for kind, number in (("apply", 5), ("rollback", 3)):
        of_kind = sorted(one.name for one in ours if one.name.endswith(kind))
        assert not gone & set(of_kind[-number:])
        if kind == "rollback":
            older = [name for name in of_kind if name <= named(0)][:-number]
            assert gone >= set(older) - parents - pinned - set(complete[-1:] + past[-1:])


@given(places(), RULES)
def test_what_is_sent_is_whole_kept_and_absent_there_and_its_parents_are_at_both_ends(
    both: tuple[list[SnapshotCopy], list[SnapshotCopy]], rule: str
) -> None:
    ours, theirs = both
    parsed = parse_rule(rule) if rule else None
    here = {one.name: one for one in ours}
    known = list(theirs)

    for transfer in choose_transfers(ours, theirs, parsed, NOW):
        sent = here[transfer.name]
        origins = {one.origin for one in known if one.is_complete}
        assert sent.is_complete
        assert sent.origin not in origins
        assert transfer.name.endswith(("timer", "manual"))
        assert all(here[name].is_complete for name in transfer.parents)
        assert {here[name].origin for name in transfer.parents} <= origins
        before = [name for name in transfer.parents if name < transfer.name]
        assert transfer.parents[: len(before)] == tuple(sorted(before, reverse=True))
        known.append(sent)


@given(places(), RULES, st.integers(0, 25))
def test_after_an_interrupted_run_the_next_sends_the_rest_and_then_nothing(
    both: tuple[list[SnapshotCopy], list[SnapshotCopy]], rule: str, number: int
) -> None:
    ours, theirs = both
    parsed = parse_rule(rule) if rule else None
    every = choose_transfers(ours, theirs, parsed, NOW)
    here = {one.name: one for one in ours}
    arrived = [here[one.name] for one in every[:number]]
    half = [here[one.name]._replace(origin="", is_complete=False) for one in every[number:][:1]]

    rest = choose_transfers(ours, [*theirs, *arrived, *half], parsed, NOW)

    assert [one.name for one in rest] == [one.name for one in every[number:]]
    whole = [*theirs, *(here[one.name] for one in every)]
    assert choose_transfers(ours, whole, parsed, NOW) == []


@given(places(), RULES)
def test_what_was_sent_is_not_pruned_there_and_sent_again(
    both: tuple[list[SnapshotCopy], list[SnapshotCopy]], rule: str
) -> None:
    ours, theirs = both
    parsed = parse_rule(rule) if rule else None
    here = {one.name: one for one in ours}
    sent = [here[one.name] for one in choose_transfers(ours, theirs, parsed, NOW)]
    whole = [one for one in [*theirs, *sent] if one.is_complete]

    gone = pruned(whole, rule, set(), set())

    left = [one for one in whole if one.name not in gone]
    assert choose_transfers(ours, left, parsed, NOW) == []


def test_a_received_copy_here_is_a_parent_of_what_was_made_from_it() -> None:
    restored, new = copy(named(5), "first-disk"), copy(named(1))
    assert choose_parents(new.name, [restored, new], [copy(named(5), "first-disk")]) == (
        restored.name,
    )


def test_one_from_the_future_takes_the_place_of_no_other() -> None:
    future = [copy(named(-40_000 - n, kind)) for n, kind in enumerate(("apply", "timer"))]
    applied = [copy(named(n, "apply")) for n in range(1, 6)]
    taken = [copy(named(0.5)), copy(named(0.1))]
    every = [*future, *applied, *taken]

    assert pruned(every, "1h", set(), set()) == set()
    assert newest_common(every, every, NOW) == named(0.1)
    assert newest_common(future, every, NOW) == max(one.name for one in future)
    assert newest_common([], every, NOW) == ""


def test_snapshots_that_cannot_be_told_apart_are_neither_sent_nor_parents() -> None:
    ours = [copy(named(3), "same"), copy(named(2), "same"), copy(named(1))]
    (sent,) = choose_transfers(ours, [copy(named(3), "same")], None, NOW)
    assert (sent.name, sent.parents) == (named(1), ())


@pytest.mark.parametrize(
    ("ages", "rule", "expected"),
    [
        ((), "24h", True),
        ((0.5,), "24h 7d", True),  # another hour
        ((0.0,), "24h 7d", False),
        ((3.0,), "7d", False),
        ((13.0,), "7d", True),
        ((-48.0, 3.0), "7d", False),  # one from the future counts for nothing
        ((-48.0, 30.0), "7d", True),
        ((-0.001, 30.0), "24h", False),  # its name was moved on by seconds
        ((23.0,), "", False),
        ((25.0,), "", True),
    ],
)
def test_a_snapshot_is_due_where_the_finest_unit_of_the_rule_begins_anew(
    ages: tuple[float, ...], rule: str, *, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    parsed = parse_rule(rule) if rule else None
    assert is_due([named(age) for age in ages], parsed, NOW) is expected


def test_a_snapshot_taken_by_apply_does_not_put_off_the_timers() -> None:
    assert is_due([named(0, "apply"), named(0, "rollback")], parse_rule("24h"), NOW)


def test_two_snapshots_of_a_second_have_two_names() -> None:
    there = ["20261125T120000Z-timer", "20261125T120001Z-apply", "pinned"]
    assert free_name(NOW, "manual", there) == "20261125T120002Z-manual"
