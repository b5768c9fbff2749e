"""Which archives of a host stay and why, which a run removes, and which were removed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.backup.pruning import Pruning, choose_pruned, is_future
from rigops.backup.retention import reasons_to_keep
from rigops.concerns.borg.host.archive_names import archives_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rigops.backup.pruning import Occasion
    from rigops.concerns.borg.host.archive_names import Archive
    from rigops.concerns.borg.host.borg_settings import BorgSettings


def archive_reasons(
    settings: BorgSettings, mine: Sequence[Archive], now: datetime
) -> dict[str, tuple[str, ...]]:
    """Of each that is no torn one, by time; without a reason retention does not keep it.

    Whole ones stay as if there were no partial ones. These stay by the same rule among themselves,
    the newest too only until a whole one is newer.
    """
    newest = _newest_whole(mine, now)
    reasons: dict[str, tuple[str, ...]] = {}
    for is_partial in (False, True):
        some = [one for one in mine if one.is_complete and one.is_partial is is_partial]
        staying = reasons_to_keep([one.at for one in some], settings.rule, now)
        for one in some:
            found = staying.get(one.at, ())
            if is_partial and newest and one.at < newest:
                found = tuple(why for why in found if why != "newest")
            elif is_partial:
                found = (*found, "no whole one is newer")
            reasons[one.name] = found
    return {one.name: reasons[one.name] for one in mine if one.is_complete}


def plan_pruning(
    settings: BorgSettings, names: Sequence[str], now: datetime, occasion: Occasion
) -> Pruning:
    """Archives that a run removes; remains of interrupted runs are no copies, and go beside."""
    reasons = archive_reasons(settings, archives_of(settings.host, names), now)
    unwanted = [name for name, found in reasons.items() if not found]
    going, held = choose_pruned(unwanted, len(reasons), occasion)
    torn = () if occasion.doubt else _torn(settings, names, now)
    return Pruning((*torn, *going), held)


def lost_archives(
    settings: BorgSettings, seen: Sequence[str], names: Sequence[str], now: datetime
) -> list[str]:
    """Those of the last run that are gone although retention keeps them.

    A run may have been killed after it had pruned: it knew those that are there now as well.
    """
    every = archives_of(settings.host, {*seen, *names})
    reasons = archive_reasons(settings, every, now)
    return [name for name, found in reasons.items() if found and name not in names]


def _torn(settings: BorgSettings, names: Sequence[str], now: datetime) -> tuple[str, ...]:
    """They go once a whole one is newer."""
    mine = archives_of(settings.host, names)
    newest = _newest_whole(mine, now)
    return tuple(one.name for one in mine if not one.is_complete and newest and one.at <= newest)


def _newest_whole(mine: Sequence[Archive], now: datetime) -> datetime | None:
    return max(
        (one.at for one in mine if one.is_whole and not is_future(one.at, now)), default=None
    )
