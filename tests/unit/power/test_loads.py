"""Which limit counts for a card."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rigops.catalog import find_gpu
from rigops.inventory.spec.choice import GpuIdentity
from rigops.power import KnownCard, Load, loads_of
from tests.unit.doctor.examining import catalog, spec

if TYPE_CHECKING:
    from collections.abc import Mapping

UUID = "GPU-11111111-1111-1111-1111-111111111111"
MODEL = find_gpu(catalog(), "3090").only
CARD = KnownCard(
    identity=GpuIdentity("0000:0a:00.0", UUID, ("GeForce RTX 3090", "3090")),
    model=MODEL,
    watts_limit=350,
    watts_default=350,
    watts_min=100,
    watts_max=366,
)


def load(declared: object = None, card: KnownCard = CARD) -> Load:
    limit = None if declared is None else spec(gpu_power_limit=declared).gpu_power_limit
    (found,) = loads_of([card], limit)
    return found


@pytest.mark.parametrize(
    ("declared", "watts", "source"),
    [
        (None, 350, "in force"),
        (285, 285, "declared"),
        ("80%", 280, "declared"),
        ({"3090": 285, "default": 200}, 285, "declared"),
        ({"V100": 200}, 350, "in force"),
        ({UUID: 250, "default": 300}, 250, "declared"),
        (367, 367, "declared"),  # nvidia-smi rounds
        (400, 350, "in force"),
        (90, 350, "in force"),
    ],
)
def test_the_limit_that_counts(declared: object, watts: float, source: str) -> None:
    found = load(declared)

    assert (found.watts, found.source) == (watts, source)
    assert found.watts_now == 350


@pytest.mark.parametrize(
    ("declared", "lacks", "note"),
    [
        (None, {"watts_limit": None}, "the card does not report its limit"),
        ("80%", {"watts_default": None}, "declared 80% of its default, which is not known"),
        (
            285,
            {"watts_limit": None, "watts_min": None, "watts_max": None},
            "the card takes no power limit",
        ),
        (
            90,
            {"watts_limit": None},
            "declared 90 W, and the card accepts 100 to 366 W; the card does not report its limit",
        ),
        (
            None,
            {"is_asked": False, "watts_default": None},
            "the catalog has no default of this card",
        ),
    ],
)
def test_a_limit_that_is_not_known(declared: object, lacks: Mapping[str, Any], note: str) -> None:
    found = load(declared, replace(CARD, **lacks))

    assert (found.watts, found.source) == (None, "unknown")
    assert found.note == note


@pytest.mark.parametrize(("declared", "watts"), [(90, 350), (390, 390), ("80%", 280)])
def test_of_a_card_that_was_not_asked_too_little_is_never_counted(
    declared: object, watts: float
) -> None:
    card = replace(CARD, is_asked=False, watts_limit=None)

    assert load(declared, card).watts == watts
