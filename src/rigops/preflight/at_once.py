"""Rates while all cards copy at once, against a fair share of the links that they pass. Pure.

In a turn each card sends to one other and receives from one. A pair is to get what it has alone,
divided by the most pairs of that turn that pass through one of its links in the same direction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from rigops.dataclass import dataclass
from rigops.preflight.found import AtOnce, Collapsed, PairFound
from rigops.preflight.payload import Above, Flow, PayloadReport, Port

_COLLAPSED: Final = 0.5  # real rigs have 0.9 of their share and more, or less than 0.3
_SWITCHES: Final = {"1000:c030": "PEX890xx"}
_MAKERS: Final = {"10b5": "PEX {device}", "11f8": "Switchtec {device}"}


@dataclass(frozen=True)
class _Path:
    """`links`: each with its direction. `switches`: that the pair passes, its source's first."""

    links: frozenset[tuple[str, str]] = frozenset()
    switches: tuple[Port, ...] = ()


def at_once(pairs: Sequence[PairFound], answer: PayloadReport) -> AtOnce | None:
    """`pairs` with their links. None: nothing was measured."""
    alone = {(pair.source, pair.target): pair for pair in pairs if pair.gb_per_s}
    flows = [one for one in answer.flows if one.gb_per_s and (one.source, one.target) in alone]
    by_turn: dict[int, list[Flow]] = {}
    for flow in flows:
        by_turn.setdefault(flow.turn, []).append(flow)
    if not by_turn:
        return None
    expected: dict[Flow, float] = {}
    collapsed: list[Collapsed] = []
    for turn in by_turn.values():
        paths = {one: _path(alone[one.source, one.target], answer.above) for one in turn}
        through = Counter(link for path in paths.values() for link in path.links)
        for one, path in paths.items():
            most = max((through[link] for link in path.links), default=1)
            expected[one] = round(_alone(alone[one.source, one.target]) / most, 3)
            if one.gb_per_s and one.gb_per_s < expected[one] * _COLLAPSED:
                collapsed.append(_collapsed(one, expected[one], path, through))
    mean = 1 / len(by_turn)
    return AtOnce(
        gb_per_s=round(mean * sum(one.gb_per_s or 0.0 for one in flows), 3),
        expected_gb_per_s=round(mean * sum(expected.values()), 3),
        alone_gb_per_s=round(
            mean * sum(alone[one.source, one.target].gb_per_s or 0.0 for one in flows), 3
        ),
        collapsed=tuple(collapsed),
    )


def _alone(pair: PairFound) -> float:
    """With both directions in use, as they are in a turn."""
    rate = pair.gb_per_s or 0.0
    return min(rate, pair.both_ways_gb_per_s / 2) if pair.both_ways_gb_per_s else rate


def _path(pair: PairFound, above: Mapping[str, Above]) -> _Path:
    """Empty over NVLink and where the ports are not known: cards share nothing but their own."""
    one, other = above.get(pair.source), above.get(pair.target)
    if pair.link.startswith("NV") or one is None or other is None:
        return _Path()
    same = _shared(one.ports, other.ports)
    up, down = one.ports[same:], other.ports[same:]
    links = {*((port.address, "up") for port in up), *((port.address, "down") for port in down)}
    if not same and one.node != other.node:
        links.add((f"CPU {one.node}", f"CPU {other.node}"))
    # Below a port of the CPU, each second one is the upper port of a switch.
    switches = (*one.ports[max(same - 1, 1) | 1 :: 2], *other.ports[same | 1 :: 2])
    return _Path(frozenset(links), switches)


def _shared(ports: Sequence[Port], others: Sequence[Port]) -> int:
    same = 0
    for port, other in zip(ports, others, strict=False):
        if port.address != other.address:
            break
        same += 1
    return same


def _collapsed(
    flow: Flow, expected: float, path: _Path, through: Mapping[tuple[str, str], int]
) -> Collapsed:
    """At the first switch whose link more than one pair passes through, or the first at all."""
    shared = (one for one in path.switches if through.get((one.address, "up"), 0) > 1)
    switch = next(shared, next(iter(path.switches), None))
    return Collapsed(
        turn=flow.turn,
        source=flow.source,
        target=flow.target,
        gb_per_s=flow.gb_per_s or 0.0,
        expected_gb_per_s=expected,
        switch=switch.address if switch else "",
        model=_model(switch.id) if switch else "",
    )


def _model(identity: str) -> str:
    vendor, _, device = identity.partition(":")
    return _SWITCHES.get(identity) or _MAKERS.get(vendor, identity).format(device=device.upper())
