"""The power budget of hosts, of the circuits that they share, and what their energy costs. Pure."""

from rigops.power.budget import (
    CIRCUIT_SHARE,
    EFFICIENCY,
    STEADY_SHARE,
    Share,
    Supply,
    Wall,
    describe_excess,
)
from rigops.power.energy import Energy
from rigops.power.host_power import (
    Feeds,
    HostPower,
    Neighbor,
    Neighbors,
    from_inventory,
    odd_breaker,
    sharing,
)
from rigops.power.loads import KnownCard, Load, loads_of

__all__ = [
    "CIRCUIT_SHARE",
    "EFFICIENCY",
    "STEADY_SHARE",
    "Energy",
    "Feeds",
    "HostPower",
    "KnownCard",
    "Load",
    "Neighbor",
    "Neighbors",
    "Share",
    "Supply",
    "Wall",
    "describe_excess",
    "from_inventory",
    "loads_of",
    "odd_breaker",
    "sharing",
]
