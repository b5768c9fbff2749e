"""Which pairs of cards of which rig reach each other, and how it goes wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.lab import rigs
from tests.lab.silicon.rigsim import p2p, rig
from tests.shards import LAB_ITSELF

if TYPE_CHECKING:
    from tests.lab.silicon.rigsim.p2p import Reach

pytestmark = pytest.mark.shard(LAB_ITSELF)

MODES = ("translated", "passthrough", "off")


def reaches(name: str, driver: str, iommu: str, **changes: object) -> dict[tuple[int, int], Reach]:
    facts = {**json.loads(rigs.load(name).hardware()), **changes}
    return p2p.matrix(rig.from_json(json.dumps(facts)), driver, iommu)


def answers(name: str, driver: str, iommu: str, **changes: object) -> set[tuple[bool, str]]:
    found = reaches(name, driver, iommu, **changes).values()
    return {(reach.granted, reach.copy) for reach in found}


@pytest.mark.parametrize("iommu", MODES)
@pytest.mark.parametrize("setting", ["default", "granted"])
def test_545_says_yes_on_3090s_and_hangs_in_every_iommu_mode(iommu: str, setting: str) -> None:
    assert answers("threadripper-3x3090", "545.29.06", iommu, p2p=setting) == {(True, "hang")}


@pytest.mark.parametrize("iommu", MODES)
@pytest.mark.parametrize("driver", ["535.261.03", "535.183.01", "550.163.01", "580.95.05"])
def test_a_stock_driver_does_not_grant_it_to_3090s(driver: str, iommu: str) -> None:
    assert answers("threadripper-3x3090", driver, iommu) == {(False, "ok")}


@pytest.mark.parametrize(
    ("iommu", "copy"), [("translated", "wrong"), ("passthrough", "ok"), ("off", "ok")]
)
def test_where_it_is_granted_535_is_wrong_under_a_translating_iommu_only(
    iommu: str, copy: str
) -> None:
    found = answers("threadripper-3x3090", "535.261.03", iommu, p2p="granted")
    assert found == {(True, copy)}


@pytest.mark.parametrize("name", ["threadripper-3x3090", "t180-4xv100", "nvlink-2x3090"])
def test_refused_is_never_granted(name: str) -> None:
    for driver in ("535.261.03", "545.29.06"):
        assert answers(name, driver, "passthrough", p2p="refused") == {(False, "ok")}


@pytest.mark.parametrize(
    "defect",
    [
        *("hang", "wrong", "mirror", "stale", "slow", "kernel-hang", "loads-wrong", "no-flags"),
        *("map-fails", "ipc-refused"),
    ],
)
def test_a_defect_is_what_it_is_asked_to_be(defect: str) -> None:
    for name in ("threadripper-3x3090", "t180-4xv100"):
        assert answers(name, "535.261.03", "passthrough", p2p=defect) == {(True, defect)}


def test_one_way_grants_only_towards_the_higher_card() -> None:
    found = reaches("threadripper-3x3090", "535.261.03", "passthrough", p2p="one-way")
    assert {pair: reach.granted for pair, reach in found.items()} == {
        pair: pair[0] < pair[1] for pair in found
    }


@pytest.mark.parametrize("setting", ["default", "granted", "hang", "one-way"])
def test_cards_of_two_kinds_never_reach_each_other(setting: str) -> None:
    assert answers("desktop-3060-1060", "535.261.03", "passthrough", p2p=setting) == {(False, "ok")}


def test_a_staged_copy_is_as_slow_as_the_slower_of_two_links() -> None:
    found = reaches("desktop-3060-1060", "535.261.03", "passthrough")
    assert {reach.staged for reach in found.values()} == {0.6}


def test_a_bridged_pair_is_granted_over_its_links() -> None:
    found = reaches("nvlink-2x3090", "535.261.03", "translated")
    assert {(r.granted, r.copy, r.link, r.rate) for r in found.values()} == {
        (True, "ok", "nvlink", 50.6)
    }


def test_sxm2_modules_reach_each_other_over_nvlink() -> None:
    found = reaches("t180-4xv100", "535.261.03", "translated")
    assert len(found) == 12
    assert {(r.granted, r.copy, r.link) for r in found.values()} == {(True, "ok", "nvlink")}


def test_eight_4090s_are_not_granted_it() -> None:
    for driver in ("535.261.03", "545.29.06"):
        found = answers("epyc-8x4090", driver, "passthrough")
        assert found == {(False, "ok")}


def test_rates_follow_generation_and_width_of_the_narrower_link() -> None:
    gpus = json.loads(rigs.load("threadripper-3x3090").hardware())["gpus"]
    for gpu, width in zip(gpus, (16, 16, 8), strict=True):
        gpu.update(generation=3, width=width)
    found = reaches("threadripper-3x3090", "535.261.03", "off", p2p="granted", gpus=gpus)
    assert [found[0, 1].rate, found[0, 2].rate] == [12.9, 6.5]
    assert all(reach.staged < reach.rate < reach.both for reach in found.values())


def test_slow_is_slower_than_through_the_host() -> None:
    found = reaches("threadripper-3x3090", "535.261.03", "off", p2p="slow")
    assert all(reach.rate < reach.staged for reach in found.values())
