"""The power budget alone, without any host."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.inventory.spec.model import Circuit, Psu
from rigops.power.budget import Budget, Supply, fitting, host_watts, reckon
from rigops.power.loads import Load

A, B, C = "0000:0a:00.0", "0000:0b:00.0", "0000:0c:00.0"


def cards(*watts: float | None, least: float = 100, spike: float = 1.0) -> list[Load]:
    return [
        Load(address=address, watts=each, spike_factor=spike, least_watts=least)
        for address, each in zip((A, B, C), watts, strict=False)
    ]


def by_name(budget: Budget) -> dict[str, Supply]:
    return {supply.name: supply for supply in budget.supplies}


def kinds(budget: Budget) -> list[tuple[str, str]]:
    return [(one.kind, one.where) for one in budget.excesses]


def test_what_is_not_declared_of_the_rest_is_an_estimate() -> None:
    assert host_watts(180) == 180
    assert host_watts(0) == 0
    assert host_watts(None) == 250


@pytest.mark.parametrize(("limit", "over"), [(310, []), (310.1, [("steady", "PSU 1")])])
def test_a_supply_is_loaded_to_nine_tenths_for_hours(
    limit: float, over: list[tuple[str, str]]
) -> None:
    found = reckon(cards(limit, 310), host=100, psus=[Psu(800)], circuits=None)

    assert kinds(found) == over


def test_peaks_count_against_all_of_a_supply() -> None:
    found = reckon(cards(285, 285, spike=1.71), host=100, psus=[Psu(1000)], circuits=None)

    (excess,) = found.excesses
    assert (excess.kind, round(excess.watts), excess.allowed) == ("peak", 1075, 1000)


def test_supplies_that_tell_nothing_share_everything() -> None:
    found = reckon(cards(300, 300), host=100, psus=[Psu(400), Psu(400)], circuits=None)

    (shared,) = found.supplies
    assert (shared.name, shared.watts, shared.steady) == ("PSU 1 and PSU 2", 800, 700)
    assert not found.unfed


def test_supplies_that_tell_what_they_feed_stand_alone() -> None:
    psus = [Psu(500, gpus=(A,), host=True), Psu(750, gpus=(B, C))]

    found = reckon(cards(300, 300, 300), host=200, psus=psus, circuits=None)

    supplies = by_name(found)
    assert (supplies["PSU 1"].steady, supplies["PSU 2"].steady) == (500, 600)
    assert kinds(found) == [("steady", "PSU 1")]
    assert found.excesses[0].addresses == (A,)


def test_the_rest_hangs_on_the_supplies_that_tell_nothing() -> None:
    found = reckon(cards(300, 300), host=200, psus=[Psu(500, gpus=(A,)), Psu(900)], circuits=None)

    supplies = by_name(found)
    assert (supplies["PSU 1"].steady, supplies["PSU 2"].steady) == (300, 500)


def test_supplies_in_parallel_add_up() -> None:
    found = reckon(cards(300, 300), host=200, psus=[Psu(1100, count=2)], circuits=None)

    assert found.supplies[0].watts == 2200


def test_one_supply_feeds_everything_whatever_it_names() -> None:
    found = reckon(cards(300, 300), host=200, psus=[Psu(1600, gpus=(A,))], circuits=None)

    assert found.supplies[0].steady == 800
    assert not found.unfed


def test_cards_without_a_supply_and_supplies_without_their_card() -> None:
    psus = [Psu(500, gpus=(A,), host=True), Psu(500, gpus=(C,))]

    found = reckon(cards(300, 300), host=100, psus=psus, circuits=None)

    assert found.unfed == (B,)
    assert found.strangers == (C,)


def test_the_board_counts_for_the_largest_supply_where_nobody_says() -> None:
    psus = [Psu(500, gpus=(A,)), Psu(900, gpus=(B,))]

    supplies = by_name(reckon(cards(300, 300), host=100, psus=psus, circuits=None))

    assert (supplies["PSU 1"].host_watts, supplies["PSU 2"].host_watts) == (0, 100)


@pytest.mark.parametrize(("host", "over"), [(182, []), (184, [("circuit", "the circuit")])])
def test_a_circuit_carries_eight_tenths_and_feeds_the_losses(
    host: float, over: list[tuple[str, str]]
) -> None:
    # 120 V x 16 A x 0.8 = 1536 W at the wall, of which 90 % arrive.
    loads = cards(400, 400, 400)

    found = reckon(loads, host=host, psus=None, circuits=[Circuit("", 120, 16)])

    assert kinds(found) == over
    assert found.walls[0].allowed == pytest.approx(1536)


def test_each_circuit_carries_its_own_supplies() -> None:
    psus = [
        Psu(2000, gpus=(A,), host=True, circuit="kitchen"),
        Psu(2000, gpus=(B, C), circuit="hall"),
    ]
    circuits = [Circuit("kitchen", 120, 15), Circuit("hall", 120, 8)]

    found = reckon(cards(400, 400, 400), host=100, psus=psus, circuits=circuits)

    assert kinds(found) == [("circuit", "circuit hall")]
    assert not found.unwired


def test_a_supply_on_no_known_circuit_is_told_of() -> None:
    circuits = [Circuit("A", 120, 15), Circuit("B", 120, 15)]
    psus = [Psu(800, gpus=(A,), host=True, circuit="A"), Psu(800, gpus=(B,), circuit="C")]

    assert reckon(cards(300, 300), host=0, psus=psus, circuits=circuits).unwired == ("PSU 2",)
    assert reckon(cards(300), host=0, psus=None, circuits=circuits).unwired == ("the whole rig",)


def test_a_limit_that_is_not_known_is_named() -> None:
    found = reckon(cards(300, None), host=100, psus=[Psu(1000)], circuits=None)

    assert found.unknown == (B,)
    assert fitting(found, cards(300, None)) is None


def test_no_limits_fit_where_the_cards_cannot_go_so_low() -> None:
    loads = cards(575, 575, least=400)

    assert fitting(reckon(loads, host=100, psus=[Psu(1000)], circuits=None), loads) == {
        A: 400,
        B: 400,
    }
    assert fitting(reckon(loads, host=110, psus=[Psu(1000)], circuits=None), loads) is None


@given(
    st.lists(st.integers(50, 600), min_size=1, max_size=3),
    st.integers(0, 400),
    st.lists(st.integers(300, 2000), min_size=1, max_size=3),
    st.floats(1.0, 2.0),
)
def test_limits_that_fit_do_fit(
    limits: list[int], host: int, supplies: list[int], spike: float
) -> None:
    loads = cards(*limits, least=1, spike=spike)
    psus, circuits = [Psu(watts) for watts in supplies], [Circuit("", 120, 10)]
    before = reckon(loads, host=host, psus=psus, circuits=circuits)

    found = fitting(before, loads)

    if found is not None:
        assert all(found[load.address] <= (load.watts or 0) for load in loads)
        lowered = cards(*found.values(), spike=spike)
        assert not reckon(lowered, host=host, psus=psus, circuits=circuits).excesses
