"""A host's clock against that of the controller."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final

from rigops.dataclass import dataclass

_DAY_S: Final = 86_400
_YEAR_S: Final = 31_556_952
_LAST: Final = 253_402_300_799  # the last second that has a date of four digits
_FIX: Final = (
    "set it with `timedatectl set-ntp true`, or `chronyc makestep` where chrony runs; without a "
    "network `date -u -s '{now}'` and `hwclock --systohc`; a clock that is wrong after every power "
    "cycle needs a new battery on the board"
)


@dataclass(frozen=True)
class WrongClock:
    summary: str
    breaks: str
    fix: str

    def __str__(self) -> str:
        return f"{self.summary}. {self.breaks}: {self.fix}"


def wrong(host_s: float, controller_s: float, elapsed_s: float = 0.0) -> WrongClock | None:
    """None where they are less than a day apart.

    `elapsed_s`: between the answer of the host and `controller_s`.
    """
    ahead = host_s + elapsed_s - controller_s
    if abs(ahead) <= _DAY_S:
        return None
    now, off_s = _date(controller_s), abs(ahead)
    years = round(off_s / _YEAR_S, 1)
    distance = f"{years:g} years" if years >= 1 else f"{round(off_s / _DAY_S)} days"
    return WrongClock(
        summary=f"the host's clock shows {_date(host_s + elapsed_s)}, and here it is {now}: "
        f"{distance} {'ahead' if ahead > 0 else 'behind'}",
        breaks="TLS and apt fail with that: certificates and signatures count as "
        f"{'expired' if ahead > 0 else 'not yet valid'}",
        fix=_FIX.format(now=now.removesuffix(" UTC")),
    )


def _date(epoch_s: float) -> str:
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(
        seconds=min(max(epoch_s, 0), _LAST)
    )
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
