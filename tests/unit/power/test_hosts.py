"""Hosts that nobody asked, and the circuits that hosts share."""

from __future__ import annotations

import pytest

from rigops.inventory.spec.model import Circuit
from rigops.power import Share, from_inventory, odd_breaker, sharing
from tests.unit.doctor.examining import catalog, spec

A, B = "0000:0a:00.0", "0000:0b:00.0"


def shares(**declared: object) -> list[tuple[str, int, bool]]:
    found = from_inventory("rig", spec(**declared), catalog()).shares()
    return [(one.circuit, round(one.watts), one.is_known) for one in found]


def test_cards_of_one_model_are_where_the_supplies_say() -> None:
    psus = [{"watts": 850, "gpus": [A], "host": True}, {"watts": 850, "gpus": [B]}]

    found = from_inventory(
        "rig", spec(gpus={"3090": 2}, psus=psus, gpu_power_limit={A: 200, B: 300}), catalog()
    )

    assert [(one.address, one.watts) for one in found.loads] == [(A, 200), (B, 300)]
    assert found.gap == ""
    # 250 + 200 and 300
    assert [one.steady for one in found.budget().supplies] == [450, 300]


def test_a_name_of_several_models_counts_as_the_costliest() -> None:
    """The V100 is one of 250 W on PCIe or of 300 W on SXM2."""
    (load,) = from_inventory("rig", spec(gpus={"V100": 1}), catalog()).loads

    assert (load.name, load.watts, load.spike_factor) == ("V100", 300, 1.5)


def test_several_models_on_named_addresses_are_unknown() -> None:
    found = from_inventory(
        "rig", spec(gpus={"3090": 1, "V100": 1}, psus=[{"watts": 850, "gpus": [A]}]), catalog()
    )

    assert found.gap == "which of the models in gpus is at which address is not known"


def test_no_cards_are_known_to_be_none() -> None:
    found = from_inventory("rig", spec(gpus=0, circuits={"A": "120V/15A"}), catalog())

    assert (found.loads, found.gap) == ((), "")
    # 250 / 0.9
    assert [round(one.watts) for one in found.shares()] == [278]


@pytest.mark.parametrize(
    ("psus", "expected"),
    [
        # (2 x 350 + 250) / 0.9 all on A
        (None, [("A", 1056, True)]),
        ([{"watts": 1600, "circuit": "A"}], [("A", 1056, True)]),
    ],
)
def test_a_single_circuit_feeds_all(psus: object, expected: object) -> None:
    declared = {} if psus is None else {"psus": psus}

    assert shares(gpus={"3090": 2}, circuits={"A": "120V/15A"}, **declared) == expected


def test_each_supply_is_on_its_circuit() -> None:
    psus = [
        {"watts": 850, "gpus": [A], "host": True, "circuit": "A"},
        {"watts": 850, "gpus": [B], "circuit": "B"},
    ]
    circuits = {"A": "120V/15A", "B": "120V/15A", "C": "120V/15A"}

    # 350 and 250 W, and 350 W, with what supplies waste
    assert shares(gpus={"3090": 2}, psus=psus, circuits=circuits) == [
        ("A", 667, True),
        ("B", 389, True),
    ]
    unknown = shares(gpus=2, psus=psus, circuits=circuits)
    assert [(name, known) for name, _, known in unknown] == [("A", False), ("B", False)]


def test_where_a_supply_hangs_on_no_circuit_all_are_unknown() -> None:
    circuits = {"A": "120V/15A", "B": "120V/15A"}

    found = shares(gpus={"3090": 2}, psus=[1600], circuits=circuits)

    assert found == [("A", 0, False), ("B", 0, False)]


def test_neighbors_are_on_a_circuit_of_the_same_name() -> None:
    specs = {
        "one": spec(circuits={"A": "120V/15A", "B": "120V/15A"}),
        "two": spec(circuits={"B": "120V/15A"}),
        "three": spec(circuits={"C": "120V/15A"}),
        "four": spec(circuits="120V/15A"),
        "five": spec(),
    }

    found = {host: [one.host for one in sharing(host, specs)] for host in specs}

    assert found == {"one": ["two"], "two": ["one"], "three": [], "four": [], "five": []}


def test_a_neighbor_on_a_circuit_that_the_host_does_not_use_is_no_doubt() -> None:
    psus = [{"watts": 1600, "circuit": "A"}]
    host = from_inventory(
        "rig",
        spec(gpus={"3090": 2}, psus=psus, circuits={"A": "120V/15A", "B": "120V/15A"}),
        catalog(),
    )

    for circuit, doubts in (("B", 0), ("A", 1)):
        budget = host.budget([Share(circuit=circuit, host="x", watts=9, is_known=False)])
        assert len(host.doubts(budget)) == doubts


@pytest.mark.parametrize(
    ("volts", "amperes", "is_odd"),
    [(120, 16, True), (100, 16, True), (120, 15, False), (120, 20, False), (230, 16, False)],
)
def test_breakers_that_are_sold(volts: float, amperes: float, *, is_odd: bool) -> None:
    assert bool(odd_breaker(Circuit("", volts, amperes))) is is_odd
