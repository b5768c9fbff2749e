"""Which copies of the controller's go, and which another host needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigops.vault.copies import Copied, Copies, Reference
from rigops.vault.store import Store
from tests.unit.vault.making import index_of, kept_set

OLD, NOW, NEW = (kept_set(version) for version in ("535.183.01", "535.261.03", "580.178.04"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "vault")


def fill(store: Store, *versions: str) -> None:
    for one in map(kept_set, versions):
        for its in one.packages:
            store.put(its.sha256, [f"{its.name} {its.version}".encode()])
        store.put(one.index, [index_of(one.version).encode()])


def is_there(store: Store, version: str) -> set[bool]:
    return {store.data(one) is not None for one in Copied.of(kept_set(version)).digests}


def goes_on(reference: Reference, *versions: str, locked: tuple[str, ...] = ()) -> int:
    sets = tuple(Copied.of(kept_set(version)) for version in versions)
    reference.claim(sets)
    return reference.freed(sets, locked)


def test_what_the_host_does_not_refer_to_any_more_goes(store: Store) -> None:
    fill(store, OLD.version, NOW.version, NEW.version)
    reference = Reference(store, "rig", None)
    assert goes_on(reference, NOW.version, OLD.version) == 0

    freed = goes_on(reference, NEW.version, NOW.version)

    assert freed == OLD.size + len(index_of(OLD.version))
    assert is_there(store, OLD.version) == {False}
    assert is_there(store, NOW.version) == is_there(store, NEW.version) == {True}
    assert [one.version for one in reference.read().sets] == [NEW.version, NOW.version]


def test_what_another_host_refers_to_stays(store: Store) -> None:
    fill(store, OLD.version, NOW.version)
    goes_on(Reference(store, "other", Path("inventory.lock.json")), OLD.version)
    reference = Reference(store, "rig", Path("inventory.lock.json"))
    goes_on(reference, OLD.version)

    assert goes_on(reference, NOW.version) == 0
    assert is_there(store, OLD.version) == {True}


def test_a_host_of_the_same_name_in_another_inventory_is_another_one(store: Store) -> None:
    fill(store, OLD.version, NOW.version)
    goes_on(Reference(store, "rig", Path("/elsewhere/inventory.lock.json")), OLD.version)
    reference = Reference(store, "rig", Path("/here/inventory.lock.json"))
    goes_on(reference, OLD.version)

    assert goes_on(reference, NOW.version) == 0


def test_what_the_lock_has_stays(store: Store) -> None:
    fill(store, OLD.version, NOW.version)
    reference = Reference(store, "rig", None)
    goes_on(reference, OLD.version)

    assert goes_on(reference, NOW.version, locked=Copied.of(OLD).digests) == 0
    assert is_there(store, OLD.version) == {True}


def test_what_nobody_ever_referred_to_is_somebodys_and_stays(store: Store) -> None:
    fill(store, OLD.version, NOW.version)

    assert goes_on(Reference(store, "rig", None), NOW.version) == 0
    assert is_there(store, OLD.version) == {True}


def test_nothing_goes_while_what_a_host_refers_to_cannot_be_told(store: Store) -> None:
    fill(store, OLD.version, NOW.version)
    reference = Reference(store, "rig", None)
    goes_on(reference, OLD.version)
    (reference.path.parent / "other.json").write_text("{")

    assert goes_on(reference, NOW.version) == 0
    assert is_there(store, OLD.version) == {True}
    (reference.path.parent / "other.json").unlink()
    assert goes_on(reference, NOW.version) > 0


def test_what_an_interrupted_run_did_not_free_goes_with_the_next(store: Store) -> None:
    fill(store, OLD.version, NOW.version)
    reference = Reference(store, "rig", None)
    goes_on(reference, OLD.version)
    reference.claim((Copied.of(NOW),))

    assert goes_on(reference, NOW.version) > 0
    assert is_there(store, OLD.version) == {False}


def test_who_signed_is_kept_as_long_as_the_set(store: Store) -> None:
    data = {f"{number}" * 64: number for number in (1, 2)}
    document, lists = next(iter(data)), tuple(data)[1:]
    reference = Reference(store, "rig", None)
    reference.claim((Copied.of(NOW, document, lists),))

    assert {document, *lists} < reference.read().digests


def test_a_damaged_file_names_nothing_outside_the_store(store: Store) -> None:
    reference = Reference(store, "rig", None)
    reference.claim((Copied.of(NOW),))
    text = reference.path.read_text().replace(NOW.index, "../../../etc/passwd")
    reference.path.write_text(text)

    assert reference.read() == Copies()


@pytest.mark.parametrize("name", ["@local", "../x", "a/b", "user@host:22"])
def test_any_name_of_a_host_is_a_file_of_the_folder(store: Store, name: str) -> None:
    reference = Reference(store, name, None)
    reference.claim(())

    assert reference.path.parent == store.folder / "hosts"
    assert reference.path.stat().st_mode & 0o022 == 0
