"""A host with a pinned driver is released: what the next upgrade would bring, and who stops it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.applying import INVENTORY, only
from tests.lab.driver_rig import ALL, AUTO, GOOD, OLD, THE_535, Rig, tended
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(LAB_DRIVER)

RELEASE = ("release", "released", *INVENTORY)
NEXT = f"without the pin, apt would upgrade driver {GOOD} to {OLD}"
BAD = (
    f"{NEXT}; driver {OLD} is known to be bad for GeForce RTX 3090: Offers peer access that does "
    "not deliver: the first collective hangs at full load (reports: rigops drivers)\n"
)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, "threadripper-3x3090=released") as rig:
        rig.apply(0, *AUTO, **THE_535)
        rig.does("apt-mark hold sudo")
        yield rig


def test_the_plan_names_the_version_that_would_come_and_that_it_is_bad(rig: Rig) -> None:
    before = rig.versions()

    said = rig.laptop.rigops(*RELEASE)  # no terminal, no yes: nothing is done

    assert said.code == 130
    assert BAD in said.err
    assert f"{len(before)} packages stay held: no upgrade changes them; --drop" in said.err
    assert rig.holds() == {*before, "sudo"}


def test_whoever_drops_the_holds_is_told_the_same_and_not_that_they_stay(rig: Rig) -> None:
    said = rig.laptop.rigops(*RELEASE, "--drop-holds")

    assert (said.code, BAD in said.err, "stay held" in said.err) == (130, True, False)


def test_yes_alone_keeps_the_holds_and_no_upgrade_brings_the_bad_driver(rig: Rig) -> None:
    before = rig.versions()

    said = rig.laptop.rigops(*RELEASE, "--yes", "--json")

    assert said.code == 0, said.out + said.err
    host = only(said)
    assert set(host["kept_holds"]) == set(before)
    assert rig.there(*ALL, "/var/lib/rigops") == []
    assert rig.holds() == {*before, "sudo"}
    rig.upgrades("apt-get -q -y full-upgrade")


def test_the_holds_go_where_that_is_asked_for(rig: Rig) -> None:
    rig.does(f"apt-mark unhold {' '.join(rig.versions())}")
    rig.apply(0, *AUTO, **THE_535)

    said = rig.laptop.rigops(*RELEASE, "--yes", "--drop-holds", "--json")

    assert said.code == 0, said.out + said.err
    assert only(said)["kept_holds"] == []
    assert rig.holds() == {"sudo"}
    assert f"nvidia-driver ({OLD}-1" in rig.does("apt-get -s full-upgrade")
