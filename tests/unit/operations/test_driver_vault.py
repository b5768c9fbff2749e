"""Which driver comes from the vault: by what the host keeps, the controller has, the lock says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from rigops.catalog import load
from rigops.driver.offers import Offers
from rigops.driver.request import Refusal, Request, Resolution
from rigops.driver.resolve import resolve
from rigops.facts.driver_vault import Pool, VaultPool, parse
from rigops.facts.driver_vault_offers import offers
from rigops.operations import driver_vault
from rigops.operations.driver_vault import Shelf
from rigops.operations.driver_vault_choice import Earlier, Kept, Taken, as_proven, earlier
from rigops.spec import RigSpec
from rigops.spec.driver import driver
from rigops.vault.kept import POOL
from rigops.vault.store import Store
from tests.unit.driver.machines import BOOKWORM, with_cards
from tests.unit.vault.making import index_of, kept_set

if TYPE_CHECKING:
    from pathlib import Path

    from pyinfra.api.host import Host

OLD, NOW, OTHER = "535.183.01", "535.261.03", "550.163.01"
SETS = (kept_set(NOW), kept_set(OLD))
MACHINE = with_cards(BOOKWORM, "RTX 3090")


@dataclass
class FakeHost:
    pool: Pool
    connector_data: dict[str, Any] = field(default_factory=dict)

    def get_fact(self, fact: type) -> Pool:
        assert fact is VaultPool
        return self.pool


def whole(*versions: str) -> Pool:
    """As if everything were there as it should be."""
    packages = [its for version in versions for its in kept_set(version).packages]
    return Pool(
        digests={one.file: one.sha256 for one in packages},
        indexes=tuple(index_of(version) for version in versions),
    )


def host(pool: Pool) -> Host:
    return cast("Host", FakeHost(pool))


def shelf(tmp_path: Path, *, back: bool = False) -> Shelf:
    return Shelf(sets=SETS, locked=NOW, store=Store(tmp_path), back=back)


def asked(text: str, locked: str = NOW) -> Request:
    return Request(wish=driver(text), locked=locked)


def chosen(
    tmp_path: Path, pool: Pool, text: str, own: Offers | None = None, *, locked: str = NOW
) -> Resolution | Refusal | Taken:
    own = own or Offers()
    request = asked(text, locked)
    kept = Kept(host(pool), shelf(tmp_path), MACHINE, load())
    return kept.instead_of(resolve(MACHINE, request, own, load()), request, own)


def test_what_no_source_has_comes_from_the_vault(tmp_path: Path) -> None:
    found = chosen(tmp_path, whole(NOW, OLD), NOW)

    assert isinstance(found, Taken)
    assert (found.resolution.version, found.taken.version) == (NOW, NOW)
    assert found.resolution.packages["libcuda1"] == f"{NOW}-1"
    assert found.resolution.places == ("vault",)


def test_the_locked_version_is_preferred_to_a_newer_one_of_the_sources(tmp_path: Path) -> None:
    found = chosen(tmp_path, whole(NOW, OLD), "535", offers(index_of(NOW)), locked=OLD)

    assert isinstance(found, Taken)
    assert found.resolution.version == OLD


def test_what_the_sources_have_is_taken_from_there_and_nobody_looks_at_the_vault(
    tmp_path: Path,
) -> None:
    wrong = Pool(digests={SETS[0].packages[0].file: "0" * 64})

    found = chosen(tmp_path, wrong, "535", offers(index_of(NOW)))

    assert isinstance(found, Resolution)
    assert found.version == NOW


def test_another_branch_is_none_of_the_vaults(tmp_path: Path) -> None:
    found = chosen(tmp_path, whole(NOW, OLD), "550", offers(index_of(OTHER)))

    assert isinstance(found, Resolution)
    assert found.version == OTHER


def test_a_tampered_package_is_refused_although_there_is_another_version(tmp_path: Path) -> None:
    one = SETS[0].packages[2]
    pool = whole(NOW, OLD)
    pool = replace(pool, digests={**pool.digests, one.file: "0" * 64})

    found = chosen(tmp_path, pool, "535")

    assert isinstance(found, Refusal)
    for word in (f"{POOL}/{one.file}", one.name, one.sha256, "0" * 64):
        assert word in found.reason


def test_a_text_for_apt_that_nobody_vouches_for_is_not_used(tmp_path: Path) -> None:
    pool = replace(whole(NOW, OLD), indexes=(index_of(NOW) + "\nPackage: evil\n", index_of(OLD)))

    found = chosen(tmp_path, pool, NOW)

    assert isinstance(found, Refusal)
    assert "what tells apt of its packages" in found.reason


def test_what_is_lost_in_both_places_is_named(tmp_path: Path) -> None:
    pool = whole(NOW)
    gone = SETS[0].packages[3].file
    pool = replace(pool, digests={name: it for name, it in pool.digests.items() if name != gone})

    found = chosen(tmp_path, pool, NOW)

    assert isinstance(found, Refusal)
    assert gone in found.reason
    assert str(tmp_path) in found.reason


def test_where_the_vault_is_not_whole_the_sources_driver_is_taken_and_that_is_told(
    tmp_path: Path,
) -> None:
    found = chosen(tmp_path, Pool(), "535", offers(index_of(NOW)), locked=OLD)

    assert isinstance(found, Resolution)
    assert found.version == NOW
    assert any(f"driver {OLD} was proven here" in note for note in found.notes)


def test_a_reinstalled_machine_gets_the_part_of_the_driver_that_it_had(tmp_path: Path) -> None:
    known = shelf(tmp_path)
    installed = replace(MACHINE, installed={"libcuda1": "1"})

    assert as_proven(asked("535"), MACHINE, known).set_ == "compute"
    assert as_proven(asked("535"), installed, known).set_ is None
    assert as_proven(asked("535"), MACHINE, None).set_ is None
    declared = replace(asked("535"), set_="desktop")
    assert as_proven(declared, MACHINE, known).set_ == "desktop"


def installed_(version: str) -> dict[str, str]:
    return {one.name: one.version for one in kept_set(version).packages}


@pytest.mark.parametrize(("there", "goes_to"), [(NOW, OLD), (OLD, NOW), (OTHER, NOW)])
def test_back_is_the_last_proven_one_that_is_not_installed(
    tmp_path: Path, there: str, goes_to: str
) -> None:
    seen = replace(MACHINE, installed=installed_(there))
    spec = RigSpec(driver=driver("535"))

    found = earlier(host(whole(NOW, OLD)), shelf(tmp_path, back=True), spec, seen, load())

    assert isinstance(found, Earlier)
    assert (found.resolution.version, found.is_installed) == (goes_to, False)


def test_once_it_is_there_the_run_does_not_go_forth_again(tmp_path: Path) -> None:
    here = host(whole(NOW, OLD))
    spec = RigSpec(driver=driver(NOW))
    before = replace(MACHINE, installed=installed_(NOW))
    earlier(here, shelf(tmp_path, back=True), spec, before, load())

    after = replace(MACHINE, installed=installed_(OLD))
    found = earlier(here, shelf(tmp_path, back=True), spec, after, load())

    assert isinstance(found, Earlier)
    assert (found.resolution.version, found.is_installed) == (OLD, True)
    assert found.declared == f"rollback to {OLD}"


def test_with_nothing_earlier_it_says_what_there_is(tmp_path: Path) -> None:
    seen = replace(MACHINE, installed=installed_(NOW))
    only = replace(shelf(tmp_path, back=True), sets=SETS[:1])
    spec = RigSpec(driver=driver("535"))

    found = earlier(host(whole(NOW)), only, spec, seen, load())
    none = earlier(host(Pool()), replace(only, sets=()), spec, seen, load())

    assert isinstance(found, Refusal)
    assert f"there is only {NOW}, proven 2026-11-22T08:00:00Z" in str(found)
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
    assert found.unread == ("sha256sum: dkms.deb: Permission denied",)


def test_nothing_is_known_of_a_vault_without_rigops() -> None:
    assert driver_vault.shelf_of(host(Pool())) is None
