"""Reports of power for pages: two hosts on one circuit, one of which is over its budget."""

from __future__ import annotations

from dataclasses import replace

from rigops.inventory.spec.choice import GpuIdentity
from rigops.power import Feeds, HostPower, KnownCard, loads_of
from rigops.power.report import PowerReport, SharedCircuit, shared_circuits
from tests.unit.doctor.examining import spec

ADDRESSES = tuple(f"0000:{bus}:00.0" for bus in ("0a", "42", "43"))
CIRCUIT = {"circuits": {"desk": "120V/20A"}, "other_watts": 200}


def _power(host: str, **declared: object) -> HostPower:
    cards = [
        KnownCard(
            identity=GpuIdentity(address, None, ("GeForce RTX 3090",)),
            model=None,
            watts_limit=350.0,
            watts_default=350.0,
            watts_min=100.0,
            watts_max=366.0,
        )
        for address in ADDRESSES
    ]
    feeds = Feeds.from_spec(spec(**CIRCUIT, **declared))
    return HostPower(host=host, feeds=feeds, loads=loads_of(cards, None))


HOSTS = (
    _power(
        "ripper",
        psus=[
            {"watts": 850, "host": True, "gpus": list(ADDRESSES[:1]), "circuit": "desk"},
            {"watts": 750, "gpus": list(ADDRESSES[1:]), "circuit": "desk"},
        ],
    ),
    _power("bench", psus=[{"watts": 2400, "host": True, "gpus": [*ADDRESSES], "circuit": "desk"}]),
)


def reports() -> tuple[list[PowerReport], tuple[SharedCircuit, ...]]:
    shares = [share for one in HOSTS for share in one.shares()]
    made = [
        PowerReport(
            power=one,
            source="ssh",
            duty_percent=50,
            price=0.3,
            others=tuple(share for share in shares if share.host != one.host),
        )
        for one in HOSTS
    ]
    return made, shared_circuits(made, shares)


def undeclared(report: PowerReport) -> PowerReport:
    return replace(report, power=replace(report.power, feeds=Feeds()), others=())
