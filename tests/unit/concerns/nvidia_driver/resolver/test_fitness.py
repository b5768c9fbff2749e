"""Whether the catalog holds a driver fit for cards and kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.catalog import load
from rigops.concerns.nvidia_driver.resolver import fitness
from rigops.concerns.nvidia_driver.resolver.machine import Kernel
from tests.unit.concerns.nvidia_driver.resolver.machines import card

if TYPE_CHECKING:
    from rigops.catalog.model import ModuleFlavor


@pytest.mark.parametrize(
    ("version", "cards", "rank"),
    [
        ("535.261.03", ["3090"], 0),
        ("580.178.04", ["3090"], 0),
        ("595.99.02", ["3090"], 1),
        ("550.163.01", ["3090"], 2),
        # Known to be good, but it does not build for kernels of today.
        ("535.154.05", ["3090"], 2),
        ("545.29.06", ["3090"], 3),
        ("525.60.13", ["4090"], 3),
        ("525.147.05", ["4090"], 2),
    ],
)
def test_versions_are_ranked(version: str, cards: list[str], rank: int) -> None:
    assert fitness.rank(load(), version, map(card, cards)) == rank


@pytest.mark.parametrize(
    ("version", "cards", "is_bad"),
    [
        ("545.29.06", ["3090"], True),
        ("545.29.06", [], True),
        ("525.60.13", ["4090"], True),
        ("525.60.13", ["V100 SXM2 16GB", "4090"], True),
        ("525.60.13", ["V100 SXM2 16GB"], False),
        ("525.60.13", ["10de:ffff"], False),
        ("525.60.13", [], False),
        ("535.261.03", ["3090"], False),
    ],
)
def test_a_driver_is_bad_for_cards_that_its_verdict_is_about(
    version: str, cards: list[str], *, is_bad: bool
) -> None:
    assert (fitness.bad(load(), version, map(card, cards)) is not None) == is_bad


@pytest.mark.parametrize(
    ("version", "cards", "flavors"),
    [
        ("535.261.03", ["3090"], {"proprietary", "open"}),
        ("535.261.03", ["V100 SXM2 16GB", "3090"], {"proprietary"}),
        ("580.178.04", ["5090", "3090"], {"open"}),
        ("580.178.04", ["5090", "V100 SXM2 16GB"], set()),
        ("535.261.03", ["5090"], set()),
        ("615.71.09", ["3090"], {"open"}),
        ("535.261.03", [], {"proprietary", "open"}),
        ("535.261.03", ["10de:ffff"], {"proprietary", "open"}),
        ("999.10.01", ["3090"], {"proprietary", "open"}),
    ],
)
def test_the_flavors_are_those_that_drive_every_card(
    version: str, cards: list[str], flavors: set[str]
) -> None:
    found, blocker = fitness.flavors(load(), version, map(card, cards))

    assert set(found) == flavors
    assert (blocker is None) == bool(flavors)


@pytest.mark.parametrize(
    ("version", "installed", "first"),
    [
        ("535.261.03", None, "proprietary"),
        ("555.58.02", None, "proprietary"),
        ("560.35.03", None, "open"),
        ("580.178.04", None, "open"),
        ("580.178.04", "proprietary", "proprietary"),
        ("535.261.03", "open", "open"),
    ],
)
def test_an_installed_flavor_comes_first_else_that_of_the_branch(
    version: str, installed: ModuleFlavor | None, first: str
) -> None:
    order = fitness.in_order(("proprietary", "open"), version, installed)

    assert order[0] == first


def test_an_installed_flavor_that_does_not_drive_the_cards_does_not_count() -> None:
    assert fitness.in_order(("proprietary",), "580.178.04", "open") == ("proprietary",)


@pytest.mark.parametrize(
    ("version", "said", "release", "is_too_new"),
    [
        ("535.154.05", "", "6.7.12-amd64", False),
        ("535.154.05", "", "6.8.0-31-generic", True),
        ("535.171.04", "", "6.8.0-151-generic", False),
        ("535.171.04", "", "6.11.0-29-generic", True),
        ("535.261.03", "6.15", "6.16.3+deb13-amd64", True),
        ("535.261.03", "", "6.16.3+deb13-amd64", False),
        ("580.178.04", "", "7.0.0-30-generic", False),
        ("580.178.04", "", "7.3.1-arch1-1", True),
        ("570.211.01", "", "6.18.1-arch1-1", False),  # nobody knows
        ("570.211.01", "", "7.2.1-arch1-1", True),
        ("999.10.01", "", "7.2.1-arch1-1", False),
    ],
)
def test_a_kernel_is_too_new_by_the_packages_word_else_by_the_catalog(
    version: str, said: str, release: str, *, is_too_new: bool
) -> None:
    found = fitness.too_new(load(), version, [Kernel(release)], "proprietary", said)

    assert bool(found) == is_too_new


def test_a_stable_kernel_that_took_a_later_change_back_is_named_by_its_packages_version() -> None:
    kernels = [Kernel("6.1.0-52-amd64", version="6.1.186-1")]
    kernels += [Kernel("6.1.0-53-amd64", version="6.1.187-1")]

    found = fitness.too_new(load(), "535.261.03", kernels, "open", "6.16")

    assert found
    assert found.releases == ("6.1.0-53-amd64",)
    assert found.reason == "does not build from Linux 6.1.187 on"
    assert fitness.too_new(load(), "535.261.03", kernels, "proprietary", "6.16") is None


def test_branches_that_drive_all_cards_are_offered_where_one_does_not() -> None:
    _, blocker = fitness.flavors(load(), "535.261.03", [card("5090"), card("3090")])

    assert blocker
    assert blocker.fix == 'declare "driver": "580" (branches 570 to 620 drive all its cards)'
