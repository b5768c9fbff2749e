"""Copies that a run may remove of those outside retention: none on doubt, never most at once.

One rule for snapshots and archives, here and at a target. Pure.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.utc import read_utc, utc_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CLOCK_STEP = timedelta(minutes=2)  # names are moved on by a second where one is taken

_FAR = timedelta(days=35)  # more than a month, the longest usual time between two runs
_BELIEVED_AFTER = timedelta(days=1)


class KnownRuns(NamedTuple):
    """`newest`: of the runs whose clock is believed. The others: of those since whose is doubted.

    `first` and `last` of them; the clock went on from the one to the other.
    """

    newest: datetime | None = None
    first: datetime | None = None
    last: datetime | None = None


class Clock(NamedTuple):
    """`now`: the latest time that is believed. `doubt`: why it is not the time of this run."""

    now: datetime
    runs: KnownRuns  # with this one
    doubt: str = ""


class Occasion(NamedTuple):
    """Of one run. `missing`: declared paths. `removed`: so many went already, of these copies."""

    missing: tuple[str, ...] = ()
    clock_doubt: str = ""
    has_consent: bool = False
    removed: int = 0

    @property
    def doubt(self) -> str:
        """Why nothing may be removed, even with consent; empty: something may."""
        if self.missing:
            return f"nothing is removed while a declared path is missing: {', '.join(self.missing)}"
        return f"nothing is removed: {self.clock_doubt}" if self.clock_doubt else ""


class Pruning(NamedTuple):
    """`held`: the sentence why the rest of what retention does not keep stays; empty: all goes."""

    going: tuple[str, ...]
    held: str = ""


def choose_pruned(unwanted: Sequence[str], copies: int, occasion: Occasion) -> Pruning:
    """`unwanted`: what retention does not keep, the oldest first. `copies`: all that are there."""
    if not unwanted:
        return Pruning(())
    if occasion.doubt:
        return Pruning((), occasion.doubt)
    most = max(1, (copies + occasion.removed) // 2) - occasion.removed
    if occasion.has_consent or len(unwanted) <= most:
        return Pruning(tuple(unwanted))
    going = tuple(unwanted[: max(0, most)])
    return Pruning(
        going,
        f"{len(unwanted) - len(going)} more copies go at the next runs: one removes at most half "
        f"of {copies + occasion.removed}; `rigops backup HOST --prune-most` removes them now",
    )


def judge_clock(before: KnownRuns, now: datetime, unsynchronized: str = "") -> Clock:
    """`unsynchronized`: the time service that runs and has not set the clock.

    A clock that went back, or is far beyond the newest known run, is believed once later runs
    have agreed with it for a day: one run with a wrong clock changes nothing for those after it.
    """
    newest = before.newest or now
    is_plausible = newest - CLOCK_STEP <= now <= newest + _FAR
    if unsynchronized:
        doubt = f"{unsynchronized} has not synchronized the clock"
        return Clock(now if is_plausible else newest, before, doubt)
    if is_plausible:
        return Clock(now, KnownRuns(max(now, newest)))
    first = before.first
    if first is None or (first > newest) != (now > newest) or now < (before.last or first):
        first = now
    if now - first >= _BELIEVED_AFTER:
        return Clock(now, KnownRuns(now))
    where = "behind" if now < newest else "far beyond"
    return Clock(
        newest,
        KnownRuns(newest, first, now),
        f"the clock ({utc_text(now)}) is {where} the newest known run ({utc_text(newest)}); it is "
        "believed once it went on for a day",
    )


def read_runs(state: Mapping[str, object]) -> KnownRuns:
    """From the state of a program."""
    noted = state.get("clock")
    if isinstance(noted, dict):
        return KnownRuns(*(read_utc(noted.get(name)) for name in KnownRuns._fields))
    return KnownRuns(read_utc(state.get("at")))  # of a version without a clock


def runs_of_copies(times: Iterable[datetime], now: datetime) -> KnownRuns:
    """Where no state is left: there was a run when the newest copy was made."""
    return KnownRuns(max((at for at in times if at <= now), default=None))


def describe_runs(runs: KnownRuns) -> dict[str, str]:
    """For the state of a program."""
    return {name: utc_text(at) for name, at in runs._asdict().items() if at}


def is_future(at: datetime, now: datetime) -> bool:
    """More than what a name is moved on by."""
    return at > now + CLOCK_STEP
