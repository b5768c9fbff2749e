"""Which snapshot a restore takes. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.errors import HostError
from rigops.backup.host.paths import is_inside
from rigops.backup.host.snapshot_names import SnapshotName, parse_snapshot_name
from rigops.backup.pruning import is_future
from rigops.backup.utc import parse_utc

if TYPE_CHECKING:
    from collections.abc import Iterable

_NEAREST = 2  # on either side


class When(NamedTuple):
    """One snapshot by its name, or the newest that is not newer than a time, or the newest."""

    name: str = ""
    latest: datetime | None = None


def parse_when(text: str) -> When:
    if not text:
        return When()
    if parse_snapshot_name(text):
        return When(name=text)
    try:
        return When(latest=parse_utc(text))
    except ValueError:
        raise HostError(
            f"{text} is neither a time nor a snapshot",
            "give 2026-11-25T06:00:00Z, or a name from `rigops snapshots`",
        ) from None


def order_candidates(names: Iterable[str], when: When, now: datetime) -> list[str]:
    """Those that a restore may take, the best first; from the future, after a wrong clock, last.

    What a restore put aside: only by its name.
    """
    known = sorted(_known(names), reverse=True)
    known.sort(key=lambda one: is_future(one.at, now))
    if when.name:
        return [str(one) for one in known if str(one) == when.name]
    return [
        str(one)
        for one in known
        if one.kind != "rollback" and (when.latest is None or one.at <= when.latest)
    ]


def nearest_to(names: Iterable[str], when: When) -> list[str]:
    """Those around the time that was asked for, by time."""
    known = sorted(_known(names))
    asked = parse_snapshot_name(when.name)
    at = asked.at if asked else when.latest
    if at is None:
        return [str(one) for one in known[-_NEAREST:]]
    before = [str(one) for one in known if one.at <= at]
    after = [str(one) for one in known if one.at > at]
    return [*before[-_NEAREST:], *after[:_NEAREST]]


def subvolume_with(path: str, subvolumes: Iterable[str]) -> str | None:
    """The innermost one that has the path."""
    holding = [one for one in subvolumes if is_inside(path, one)]
    return max(holding, key=len, default=None)


def _known(names: Iterable[str]) -> list[SnapshotName]:
    return [one for one in map(parse_snapshot_name, set(names)) if one]
