"""The lines that a program of a host prints for the daily self-check. Python 3.8."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.backup.utc import read_utc
from rigops.concerns.state import SELF_CHECK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from rigops.concerns.state import State


def check_lines(
    states: Sequence[State], metrics: Mapping[str, str], now: datetime
) -> Iterator[str]:
    """`metrics`: their names by the key of a state: the age of what it has as `now`.

    Of several the oldest counts: the one that would be missed most.
    """
    for one in states:
        words = ("finding", SELF_CHECK[one.status], one.check, one.subject, one.text)
        yield "\t".join(" ".join(word.split()) for word in words) + "\n"
    for key, name in metrics.items():
        times = [read_utc(one.now) for one in states if one.check == key]
        known = [at for at in times if at]
        if known and len(known) == len(times):
            yield f"metric\t{name}\t{max(0.0, (now - min(known)).total_seconds()):.0f}\n"
