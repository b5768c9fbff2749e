"""Which files of the store go, and which a host still needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rigops.vault.store import References, Store
from tests.unit.record.damages import DAMAGES
from tests.unit.vault.pinned_sets import index_of, pinned_set

OLD, NOW, NEW = (pinned_set(version) for version in ("535.183.01", "535.261.03", "580.178.04"))
NOTHING: frozenset[str] = frozenset()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "vault")


def fill(store: Store, *versions: str) -> None:
    for one in map(pinned_set, versions):
        for its in one.packages:
            store.put(its.sha256, [f"{its.name} {its.version}".encode()])
        store.put(one.index, [index_of(one.version).encode()])


def is_there(store: Store, version: str) -> set[bool]:
    return {store.text(one) is not None for one in pinned_set(version).digests}


def goes_on(references: References, *versions: str, locked: frozenset[str] = NOTHING) -> int:
    needed = frozenset(digest for one in versions for digest in pinned_set(one).digests)
    references.add(needed)
    return references.reduce_to(needed, locked=locked)


def test_what_the_host_does_not_need_any_more_goes(store: Store) -> None:
    fill(store, OLD.version, NOW.version, NEW.version)
    references = References(store, "rig", None)
    assert goes_on(references, NOW.version, OLD.version) == 0

    freed = goes_on(references, NEW.version, NOW.version)

    assert freed == OLD.size + len(index_of(OLD.version))
    assert is_there(store, OLD.version) == {False}
    assert is_there(store, NOW.version) == is_there(store, NEW.version) == {True}
    assert goes_on(references, NEW.version, NOW.version) == 0


def test_what_another_host_needs_stays(store: Store) -> None:
    fill(store, OLD.version, NOW.version)
    goes_on(References(store, "other", Path("inventory.lock.json")), OLD.version)
    references = References(store, "rig", Path("inventory.lock.json"))
    goes_on(references, OLD.version)

    assert goes_on(references, NOW.version) == 0
    assert is_there(store, OLD.version) == {True}


def test_a_host_of_the_same_name_in_another_inventory_is_another_one(store: Store) -> None:
    fill(store, OLD.version, NOW.version)
    goes_on(References(store, "rig", Path("/elsewhere/inventory.lock.json")), OLD.version)
    references = References(store, "rig", Path("/here/inventory.lock.json"))
    goes_on(references, OLD.version)

    assert goes_on(references, NOW.version) == 0


def test_what_the_lockfile_has_of_another_host_stays(store: Store) -> None:
    fill(store, OLD.version, NOW.version)
    references = References(store, "rig", None)
    goes_on(references, OLD.version)

    assert goes_on(references, NOW.version, locked=OLD.digests) == 0
    assert is_there(store, OLD.version) == {True}


def test_what_no_host_ever_needed_is_somebodys_and_stays(store: Store) -> None:
    fill(store, OLD.version, NOW.version)

    assert goes_on(References(store, "rig", None), NOW.version) == 0
    assert is_there(store, OLD.version) == {True}


@pytest.mark.parametrize("damaged", [b"{", b"\xff"])
def test_nothing_goes_while_what_another_host_needs_is_unreadable(
    store: Store, damaged: bytes
) -> None:
    fill(store, OLD.version, NOW.version)
    references = References(store, "rig", None)
    goes_on(references, OLD.version)
    other = references.path.with_name("other.json")
    other.write_bytes(damaged)

    assert goes_on(references, NOW.version) == 0
    assert is_there(store, OLD.version) == {True}
    other.unlink()
    assert goes_on(references, NOW.version) > 0


@pytest.mark.parametrize("damage", DAMAGES)
def test_nothing_goes_while_such_a_document_is_damaged_in_whatever_way(
    store: Store, damage: str
) -> None:
    fill(store, OLD.version, NOW.version)
    references = References(store, "rig", None)
    goes_on(references, OLD.version)
    other = References(store, "other", None)
    goes_on(other, OLD.version)
    DAMAGES[damage](other.path)

    assert goes_on(references, NOW.version) == 0
    assert is_there(store, OLD.version) == {True}


def test_what_an_interrupted_run_did_not_remove_goes_with_the_next(store: Store) -> None:
    fill(store, OLD.version, NOW.version)
    references = References(store, "rig", None)
    goes_on(references, OLD.version)
    references.add(NOW.digests)

    assert goes_on(references, NOW.version) > 0
    assert is_there(store, OLD.version) == {False}


def test_a_document_of_version_0_1_is_understood_with_all_that_it_names(store: Store) -> None:
    """It named the signed lists of archives too, which nobody needs any more."""
    fill(store, OLD.version, NOW.version)
    lists = "b" * 64
    place = store.place(lists)
    place.parent.mkdir()
    place.write_bytes(b"signed")
    packages = [{"file": one.file, "sha256": one.sha256} for one in OLD.packages]
    old = {"version": OLD.version, "at": OLD.at, "packages": packages, "index": OLD.index}
    document = {
        "schema": "rigops.copies/1",
        "host": "rig",
        "lock": "",
        "sets": [{**old, "signatures": "a" * 64, "lists": [lists]}],
        "former": [],
    }
    references = References(store, "rig", None)
    references.path.parent.mkdir()
    references.path.write_text(json.dumps(document))
    other = References(store, "other", None)

    assert goes_on(other, OLD.version) == goes_on(other, NOW.version) == 0
    assert goes_on(references, OLD.version) == len(b"signed")
    assert is_there(store, OLD.version) == {True}


def test_a_damaged_document_names_nothing_outside_the_store(store: Store) -> None:
    fill(store, NOW.version)
    precious = store.folder.parent / "precious"
    precious.write_text("x")
    references = References(store, "rig", None)
    references.add(NOW.digests)
    text = references.path.read_text().replace(NOW.index, "../../precious")
    references.path.write_text(text)

    references.reduce_to(NOTHING, locked=NOTHING)

    assert precious.exists()
    assert store.text(NOW.index) is not None


@pytest.mark.parametrize("name", ["@local", "../x", "a/b", "user@host:22"])
def test_any_name_of_a_host_is_a_file_of_the_folder(store: Store, name: str) -> None:
    references = References(store, name, None)
    references.add(NOTHING)

    assert references.path.parent == store.folder / "hosts"
    assert references.path.stat().st_mode & 0o022 == 0
