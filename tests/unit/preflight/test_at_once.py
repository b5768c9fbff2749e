"""Rates while all cards copy at once, and what they should be."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from rigops.preflight.at_once import at_once
from rigops.preflight.found import AtOnce, PairFound
from rigops.preflight.payload import Above, Flow, PayloadReport, Port

ALONE = 52.0
CARDS = tuple(f"0000:{bus:02x}:00.0" for bus in range(8))
SWITCH = "1000:c030"


def behind(switch: int, slot: int) -> Above:
    """A card in a slot of a switch, each switch at a port of its own."""
    ports = (f"0000:{switch}0:01.1", f"0000:{switch}1:00.0", f"0000:{switch}2:{slot:02x}.0")
    ids = ("1022:14ab", SWITCH, SWITCH)
    return Above(tuple(map(Port, ports, ids)), 0)


def direct(port: int, node: int = 0) -> Above:
    return Above((Port(f"0000:{port}0:03.1", "1022:14ab"),), node)


def seen(
    above: tuple[Above, ...],
    *turns_of_rates: dict[tuple[int, int], float],
    link: str = "NODE",
    alone: float = ALONE,
) -> AtOnce | None:
    cards = CARDS[: len(above)] or CARDS
    pairs = [
        PairFound(one, other, "ok", "L5", gb_per_s=alone, link=link)
        for one, other in permutations(cards, 2)
    ]
    flows = [
        Flow(number, cards[one], cards[other], rate)
        for number, turn in enumerate(turns_of_rates, 1)
        for (one, other), rate in turn.items()
    ]
    answer = PayloadReport(flows=tuple(flows), above=dict(zip(cards, above, strict=False)))
    return at_once(pairs, answer)


TWO_SWITCHES = tuple(behind(switch, slot) for switch in (1, 2) for slot in range(4))
# GB/s of a pair in the mean of a turn, measured on two such switches, by the shift of the turn.
HEALTHY = {4: 12.75, 3: 25.67, 2: 38.15, 1: 50.13}


@pytest.mark.parametrize("shift", HEALTHY)
def test_a_real_rig_without_a_fault_has_its_share(shift: int) -> None:
    turn = {(card, (card + shift) % 8): HEALTHY[shift] for card in range(8)}

    found = seen(TWO_SWITCHES, turn)

    assert found is not None
    if shift in {1, 4}:  # of the others, only the mean of two kinds of pairs is known
        assert found.collapsed == ()
    assert found.gb_per_s == pytest.approx(found.expected_gb_per_s, rel=0.07)


def test_a_real_switch_that_collapses_is_named() -> None:
    above = (behind(1, 0), behind(1, 1), behind(2, 0), behind(3, 0))

    found = seen(above, {(0, 2): 6.7, (1, 3): 6.8, (2, 0): 25.9, (3, 1): 26.0}, {(0, 1): 51.0})

    assert found is not None
    assert [(one.source, one.target, one.switch) for one in found.collapsed] == [
        (CARDS[0], CARDS[2], "0000:11:00.0"),
        (CARDS[1], CARDS[3], "0000:11:00.0"),
    ]
    assert {one.expected_gb_per_s for one in found.collapsed} == {26.0}
    assert found.collapse.startswith(
        "copies of all cards at once collapse, with right data: 13.5 of 52.0 GB/s at switch "
        "0000:11:00.0 (PEX890xx); all-to-all and tree collectives are as slow; fix: clear ACS if "
    )
    assert found.gb_per_s == pytest.approx(58.2)
    assert found.alone_gb_per_s == pytest.approx(130)


def test_ports_that_redirect_send_neighbours_through_the_link_above_the_switch() -> None:
    found = seen(TWO_SWITCHES[:4], {(0, 1): 13.0, (1, 2): 13.0, (2, 3): 13.0, (3, 0): 13.0})

    assert found is not None
    assert {one.switch for one in found.collapsed} == {"0000:11:00.0"}


def test_what_crosses_to_another_cpu_shares_one_link() -> None:
    above = (direct(1), direct(2), direct(3, 1), direct(4, 1))

    found = seen(above, {(0, 2): 20.0, (1, 3): 14.0})

    assert found is not None
    assert (found.expected_gb_per_s, found.collapsed) == (52.0, ())


@pytest.mark.parametrize(("above", "link"), [((), "NODE"), (TWO_SWITCHES, "NV4")])
def test_where_no_link_is_known_to_be_shared_a_pair_has_what_it_has_alone(
    above: tuple[Above, ...], link: str
) -> None:
    found = seen(above, {(0, 4): 25.0, (1, 5): 27.0}, link=link)

    assert found is not None
    assert [(one.source, one.switch) for one in found.collapsed if not one.switch] == (
        [(CARDS[0], "")]
    )
    assert "at switch" not in found.collapse
    assert found.collapse.endswith("fix: look for acs.path and pci.width in `rigops doctor`")


def test_nothing_is_judged_without_a_rate() -> None:
    assert seen(TWO_SWITCHES) is None
    assert seen(TWO_SWITCHES, {(0, 4): 0.0}) is None
    assert seen(TWO_SWITCHES, {(0, 4): 12.0}, alone=0.0) is None


def test_both_directions_alone_are_the_measure_where_they_are_known() -> None:
    pair = PairFound(CARDS[0], CARDS[1], "ok", "L5", gb_per_s=24.0, both_ways_gb_per_s=26.0)
    flow = Flow(1, CARDS[0], CARDS[1], 11.0)

    found = at_once([pair], PayloadReport(flows=(flow,)))
    slower = at_once([pair], PayloadReport(flows=(replace(flow, gb_per_s=6.0),)))

    assert found is not None
    assert slower is not None
    assert (found.expected_gb_per_s, len(found.collapsed), len(slower.collapsed)) == (13.0, 0, 1)
