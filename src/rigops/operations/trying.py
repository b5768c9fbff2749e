"""How a run may try new kernel arguments: it can bring a host back, and tell what became of it.

Plain pyinfra can do neither, so that there nothing of this is set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyinfra.api.host import Host

_WAY: Final = "rigops_way_to_try"


@dataclass(frozen=True, kw_only=True)
class Way:
    """`deadline_s`: how long after its start a trial boot waits for somebody to confirm it.

    `cards`: the addresses of those that have to be there then.
    """

    deadline_s: int
    cards: tuple[str, ...] = ()
    now: bool = False  # the reboot follows at once: lay the trial entry out, and order it
    given_up: bool = False  # a trial failed: leave nothing of it behind
    untried: bool = True  # where it cannot be tried, it may become permanent without


def let_try(host: Host, way: Way | None) -> None:
    host.connector_data[_WAY] = way


def way_to_try(host: Host) -> Way | None:
    way: Way | None = host.connector_data.get(_WAY)
    return way
