"""Which driver comes from the vault: by the lockfile, and by what the two vaults have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rigops.catalog import load
from rigops.concerns.nvidia_driver.apt_offers import Offered
from rigops.concerns.nvidia_driver.record import PinnedDriver
from rigops.concerns.nvidia_driver.resolver.answer import DriverAnswer, NotCollected, answer
from rigops.concerns.nvidia_driver.resolver.driver_facts import DriverFacts, VaultAccess
from rigops.concerns.nvidia_driver.resolver.offers import Offers
from rigops.concerns.nvidia_driver.resolver.request import Blocker
from rigops.concerns.nvidia_driver.resolver.vault_sets import (
    Pool,
    VaultContents,
    offers,
    parse,
)
from rigops.inventory.spec import RigSpec
from rigops.inventory.spec.driver import driver
from rigops.vault.pinned_set import POOL
from rigops.vault.store import Store
from tests.unit.concerns.nvidia_driver.resolver.archives import offer, together
from tests.unit.concerns.nvidia_driver.resolver.choices import whole
from tests.unit.concerns.nvidia_driver.resolver.machines import BOOKWORM, with_cards
from tests.unit.vault.pinned_sets import index_of, package, pinned_set

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.concerns.nvidia_driver.resolver.machine import Machine

OLD, NOW, OTHER = "535.183.01", "535.261.03", "550.163.01"
SETS = (pinned_set(NOW), pinned_set(OLD))
MACHINE = with_cards(BOOKWORM, "RTX 3090")


def facts(
    tmp_path: Path,
    pool: Pool | None,
    own: Offers | None = None,
    *,
    machine: Machine = MACHINE,
    locked: str = NOW,
    declared: str = "535",
) -> DriverFacts:
    """Of a host with both sets in its lockfile."""
    return DriverFacts(
        machine=machine,
        catalog=load(),
        spec=RigSpec(driver=driver(declared)),
        offered=Offered(own or Offers()),
        source="",
        vault=VaultAccess(sets=SETS, locked=locked, store=Store(tmp_path)),
        contents=None if pool is None else VaultContents(pool=pool),
        last_proven=SETS[0],
    )


def chosen(
    tmp_path: Path, pool: Pool | None, text: str, own: Offers | None = None, *, locked: str = NOW
) -> DriverAnswer | Blocker | NotCollected:
    return answer(facts(tmp_path, pool, own, locked=locked), driver(text))


def test_what_no_source_has_comes_from_the_vault(tmp_path: Path) -> None:
    found = chosen(tmp_path, whole(NOW, OLD), NOW)

    assert isinstance(found, DriverAnswer)
    assert found.from_vault
    assert (found.resolution.version, found.from_vault.version) == (NOW, NOW)
    assert found.resolution.packages["libcuda1"] == f"{NOW}-1"
    assert found.resolution.places == ("vault",)


def test_the_locked_version_is_preferred_to_a_newer_one_of_the_sources(tmp_path: Path) -> None:
    found = chosen(tmp_path, whole(NOW, OLD), "535", offers(index_of(NOW)), locked=OLD)

    assert isinstance(found, DriverAnswer)
    assert found.from_vault
    assert found.resolution.version == OLD


def test_what_the_sources_have_is_taken_from_there_and_the_vault_is_not_read(
    tmp_path: Path,
) -> None:
    found = chosen(tmp_path, None, "535", offers(index_of(NOW)))

    assert isinstance(found, DriverAnswer)
    assert (found.resolution.version, found.from_vault) == (NOW, None)


def test_another_branch_is_none_of_the_vaults(tmp_path: Path) -> None:
    found = chosen(tmp_path, whole(NOW, OLD), "550", offers(index_of(OTHER)))

    assert isinstance(found, DriverAnswer)
    assert (found.resolution.version, found.from_vault) == (OTHER, None)


def test_before_the_vault_decides_it_has_to_be_collected(tmp_path: Path) -> None:
    assert chosen(tmp_path, None, NOW) == NotCollected("vault")


def test_a_tampered_package_is_refused_although_there_is_another_version(tmp_path: Path) -> None:
    one = SETS[0].packages[2]
    pool = whole(NOW, OLD)
    pool = replace(pool, digests={**pool.digests, one.file: "0" * 64})

    found = chosen(tmp_path, pool, "535")

    assert isinstance(found, Blocker)
    for word in (f"{POOL}/{one.file}", one.name, one.sha256, "0" * 64):
        assert word in found.reason


def test_a_text_for_apt_that_nobody_vouches_for_is_not_used(tmp_path: Path) -> None:
    pool = replace(whole(NOW, OLD), indexes=(index_of(NOW) + "\nPackage: evil\n", index_of(OLD)))

    found = chosen(tmp_path, pool, NOW)

    assert isinstance(found, Blocker)
    assert "the Packages file of its packages" in found.reason


def test_what_is_lost_in_both_places_is_named(tmp_path: Path) -> None:
    pool = whole(NOW)
    gone = SETS[0].packages[3].file
    pool = replace(pool, digests={name: it for name, it in pool.digests.items() if name != gone})

    found = chosen(tmp_path, pool, NOW)

    assert isinstance(found, Blocker)
    assert gone in found.reason
    assert str(tmp_path) in found.reason


def test_where_the_vault_is_incomplete_the_sources_driver_is_taken_with_a_note(
    tmp_path: Path,
) -> None:
    found = chosen(tmp_path, Pool(), "535", offers(index_of(NOW)), locked=OLD)

    assert isinstance(found, DriverAnswer)
    assert (found.resolution.version, found.from_vault) == (NOW, None)
    assert any(f"driver {OLD} was proven here" in note for note in found.resolution.notes)


def test_a_reinstalled_machine_gets_the_part_of_the_driver_that_it_had(tmp_path: Path) -> None:
    known = facts(tmp_path, Pool())
    installed = replace(MACHINE, installed={"libcuda1": "1"})
    desktop = RigSpec(driver=driver("535"), driver_set="desktop")

    pinned = PinnedDriver(version=NOW, flavor="proprietary", declared="")

    assert known.request(driver("535")).set_ == "compute"
    assert replace(known, machine=installed, pinned=pinned).request(driver("535")).set_ is None
    assert replace(known, last_proven=None).request(driver("535")).set_ is None
    assert replace(known, spec=desktop).request(driver("535")).set_ == "desktop"


def test_a_reinstalled_machine_gets_the_tools_that_it_had_and_that_are_offered(
    tmp_path: Path,
) -> None:
    had = tuple(package(name, "535.247.01-1") for name in ("nvidia-settings", "nvidia-xconfig"))
    proven = replace(SETS[0], packages=(*SETS[0].packages, *had))
    has = together(*offers(index_of(NOW)).every, offer("nvidia-settings", "535.247.01-1"))
    reinstalled = replace(facts(tmp_path, whole(NOW, OLD), has), last_proven=proven)

    found = answer(reinstalled, driver("535"))

    assert isinstance(found, DriverAnswer)
    assert found.resolution.beside == {
        "nvidia-persistenced": f"{NOW}-1",
        "nvidia-settings": "535.247.01-1",
    }


def test_where_apt_was_cut_off_in_a_reinstall_the_part_that_is_there_decides_nothing(
    tmp_path: Path,
) -> None:
    proven = pinned_set(NOW)
    whole_ = replace(
        proven, packages=(*proven.packages, replace(proven.packages[0], name="nvidia-driver"))
    )
    part = replace(MACHINE, installed={"libcuda1": f"{NOW}-1"})
    cut_off = replace(facts(tmp_path, Pool(), machine=part), last_proven=whole_)
    desktop = replace(MACHINE, installed={"nvidia-driver": f"{NOW}-1"})

    assert cut_off.request(driver("535")).set_ == "desktop"
    assert replace(cut_off, last_proven=proven).request(driver("535")).set_ == "compute"
    by_hand = replace(cut_off, machine=desktop, last_proven=proven)
    assert by_hand.request(driver("535")).set_ == "desktop"


def installed_(version: str) -> dict[str, str]:
    return {one.name: one.version for one in pinned_set(version).packages}


def back(tmp_path: Path, there: str, *, declared: str = "535") -> DriverFacts:
    machine = replace(MACHINE, installed=installed_(there))
    found = facts(tmp_path, whole(NOW, OLD), machine=machine, declared=declared)
    assert found.vault
    return replace(found, vault=replace(found.vault, back=True))


@pytest.mark.parametrize(("there", "goes_to"), [(NOW, OLD), (OLD, NOW), (OTHER, NOW)])
def test_a_rollback_goes_to_the_last_proven_one_that_is_not_installed(
    tmp_path: Path, there: str, goes_to: str
) -> None:
    found = answer(back(tmp_path, there), driver("535"))

    assert isinstance(found, DriverAnswer)
    assert (found.resolution.version, found.is_settled) == (goes_to, False)


def test_a_rollback_that_has_begun_does_not_turn_around(tmp_path: Path) -> None:
    begun = replace(back(tmp_path, OLD, declared=NOW), rollback_target=SETS[1])
    recorded = PinnedDriver(
        version=OLD, flavor="proprietary", declared=f"rollback to {OLD}", packages=installed_(OLD)
    )

    found = answer(begun, driver(NOW))
    done = answer(replace(begun, pinned=recorded), driver(NOW))

    assert isinstance(found, DriverAnswer)
    assert (found.resolution.version, found.declared) == (OLD, f"rollback to {OLD}")
    assert isinstance(done, DriverAnswer)
    assert (done.resolution.version, done.is_settled) == (OLD, True)


def test_without_an_earlier_one_a_rollback_is_refused_with_what_there_is(tmp_path: Path) -> None:
    known = back(tmp_path, NOW)
    assert known.vault

    found = answer(replace(known, vault=replace(known.vault, sets=SETS[:1])), driver("535"))
    none = answer(replace(known, vault=replace(known.vault, sets=())), driver("535"))

    assert f"it has only {NOW}, proven 2026-11-22T08:00:00Z" in str(found)
    assert "nothing was proven yet" in str(none)


def test_files_of_the_pool_are_read_by_their_digests() -> None:
    said = f"""\
== pool
{"a" * 64}  libcuda1_535.261.03-1_amd64.deb
sha256sum: dkms.deb: Permission denied
== index /var/lib/rigops/vault/0123.packages
Package: a
Version: 1

Package: b
Version: 2
"""

    found = parse(said)

    assert found.digests == {"libcuda1_535.261.03-1_amd64.deb": "a" * 64}
    assert found.indexes == ("Package: a\nVersion: 1\n\nPackage: b\nVersion: 2\n",)
