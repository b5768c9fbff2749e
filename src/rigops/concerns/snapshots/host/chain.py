"""The snapshots to send, their parents, and those that pruning leaves alone. Pure.

A snapshot is the same one at two places where its origin is the same. A stream can build upon it
there, so each target's newest one of these stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.snapshot_names import parse_snapshot_name
from rigops.backup.pruning import is_future
from rigops.backup.retention import PAUSE_WITHOUT_RULE, due, reasons_to_keep

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from rigops.backup.retention import Rule
    from rigops.concerns.snapshots.host.place import SnapshotCopy

SENT_KINDS = ("timer", "manual")
NEWEST_THAT_STAY = {"apply": 5, "rollback": 3}


class Transfer(NamedTuple):
    """`parents`: names here that the target has too, the best first; empty: sent in full."""

    name: str
    parents: tuple[str, ...]


def common_copies(
    ours: Iterable[SnapshotCopy], theirs: Iterable[SnapshotCopy]
) -> list[SnapshotCopy]:
    """Ours that the other place has as well, by time."""
    origins = {one.origin for one in theirs if one.is_complete}
    every = sorted(ours)
    doubtful = ambiguous_origins(every)
    return [
        one
        for one in every
        if one.is_complete and one.origin in origins and one.origin not in doubtful
    ]


def newest_common(
    ours: Iterable[SnapshotCopy], theirs: Iterable[SnapshotCopy], now: datetime
) -> str:
    """Upon which the next stream builds; empty: there is none. One from the future is the last."""
    common = [one.name for one in common_copies(ours, theirs)]
    return max(common, key=lambda name: (not is_from_future(name, now), name), default="")


def ambiguous_origins(copies: Iterable[SnapshotCopy]) -> list[str]:
    """Of several snapshots: a received one was made writable by force, and taken again."""
    seen: dict[str, int] = {}
    for one in copies:
        seen[one.origin] = seen.get(one.origin, 0) + 1
    return [origin for origin, number in seen.items() if number > 1]


def choose_parents(
    name: str, ours: Iterable[SnapshotCopy], theirs: Iterable[SnapshotCopy]
) -> tuple[str, ...]:
    """Those before it, the nearest first, then those after it."""
    common = [one.name for one in common_copies(ours, theirs) if one.name != name]
    before = [one for one in common if one < name]
    return (*reversed(before), *(one for one in common if one > name))


def choose_transfers(
    ours: Sequence[SnapshotCopy], theirs: Sequence[SnapshotCopy], rule: Rule | None, now: datetime
) -> list[Transfer]:
    """Snapshots that retention keeps here and there and the target lacks; the oldest first."""
    there = {one.origin for one in theirs if one.is_complete}
    both = {one.name for one in ours if one.is_complete}
    both |= {one.name for one in theirs if one.is_complete}
    kept = set(_kept_by_rule((one.name for one in ours if one.is_complete), rule, now))
    kept &= set(_kept_by_rule(both, rule, now))
    doubtful = ambiguous_origins(ours)
    found: list[Transfer] = []
    known = list(theirs)
    for one in sorted(ours):
        if one.name in kept and one.origin not in there and one.origin not in doubtful:
            found.append(Transfer(one.name, choose_parents(one.name, ours, known)))
            known.append(one)
    return found


def find_reasons_to_stay(
    copies: Iterable[SnapshotCopy],
    rule: Rule | None,
    now: datetime,
    *,
    parents: Collection[str] = (),
    pinned: Collection[str] = (),
) -> dict[str, tuple[str, ...]]:
    """Of every copy at a place; one without a reason is what pruning removes.

    `parents`: the newest common one of each target.
    """
    every = sorted(copies)
    reasons: dict[str, list[str]] = {one.name: [] for one in every}
    complete = [one.name for one in every if one.is_complete]
    past = [name for name in complete if not is_from_future(name, now)]
    for newest in {*complete[-1:], *past[-1:]}:
        reasons[newest].append("newest")
    for name, found in _kept_by_rule(complete, rule, now).items():
        reasons[name] += found
    for kind, number in NEWEST_THAT_STAY.items():
        named = [one for one in reasons if kind_of(one) == kind]
        for name in [one for one in named if not is_from_future(one, now)][-number:]:
            reasons[name].append(kind)
        for name in [one for one in named if is_from_future(one, now)]:
            reasons[name].append("in the future")
    for one in every:
        if not one.is_complete and kind_of(one.name) != "rollback":
            reasons[one.name].append("writable")  # by a person, or by what runs right now
        if one.name in parents:
            reasons[one.name].append("parent")
        if one.name in pinned:
            reasons[one.name].append("pinned")
    return {name: tuple(found) for name, found in reasons.items()}


def is_due(names: Iterable[str], rule: Rule | None, now: datetime) -> bool:
    """A snapshot from the future counts for nothing: the clock went back."""
    times = [
        found.at
        for found in map(parse_snapshot_name, names)
        if found and found.kind in SENT_KINDS and not is_future(found.at, now)
    ]
    newest = max(times, default=None)
    if newest is None or rule is None:
        return newest is None or now - newest >= PAUSE_WITHOUT_RULE
    return due(min(newest, now), rule, now)


def is_from_future(name: str, now: datetime) -> bool:
    found = parse_snapshot_name(name)
    return found is not None and is_future(found.at, now)


def kind_of(name: str) -> str:
    found = parse_snapshot_name(name)
    return found.kind if found else ""


def _kept_by_rule(
    names: Iterable[str], rule: Rule | None, now: datetime
) -> dict[str, tuple[str, ...]]:
    parsed = {name: parse_snapshot_name(name) for name in names}
    named = {name: one for name, one in parsed.items() if one and one.kind in SENT_KINDS}
    reasons = reasons_to_keep([found.at for found in named.values()], rule, now)
    return {name: reasons[found.at] for name, found in named.items() if found.at in reasons}
