"""An excess in words, the same in doctor, plan and `rigops power`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.power.budget import CIRCUIT_SHARE, STEADY_SHARE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.power.budget import Excess, Kind

KINDS: Final[Mapping[Kind, str]] = {
    "steady": "under lasting load",
    "peak": "in peaks of milliseconds",
    "circuit": "from the wall",
}
SHARES: Final[Mapping[Kind, str]] = {
    "steady": f"{STEADY_SHARE:.0%} of its watts",
    "peak": "all its watts",
    "circuit": f"{CIRCUIT_SHARE:.0%} of the breaker",
}


def describe_excess(excess: Excess) -> str:
    return (
        f"{excess.where}: {excess.watts:.0f} W {KINDS[excess.kind]}, above the safe "
        f"{excess.allowed:.0f} W ({SHARES[excess.kind]})"
    )
