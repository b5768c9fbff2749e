"""What this machine has of a host."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from rigops.capture.controller import Passphrase, look
from rigops.vault.borg_keys import put_key
from rigops.vault.pinned_set import PinnedPackage
from rigops.vault.store import Store
from tests.unit.capture.rigs import LOCKED

if TYPE_CHECKING:
    from pathlib import Path

ID = "0f" * 32
KEY = f"BORG_KEY {ID}\n{'A' * 120}\n"
INDEX = b"Package: a\n"


@pytest.fixture
def own(tmp_path: Path) -> Store:
    return Store(tmp_path / "vault")


def package(content: bytes) -> PinnedPackage:
    return PinnedPackage("a", "1", "amd64", sha256(content).hexdigest(), len(content))


PINNED = replace(LOCKED.sets[0], packages=(package(b"content"),), index=sha256(INDEX).hexdigest())


def test_what_is_whole_is_there(own: Store) -> None:
    own.put(PINNED.index, [INDEX])
    own.put(PINNED.packages[0].sha256, [b"content"])
    put_key(own, "rig", KEY)

    found = look(own, "rig", PINNED, ID, Passphrase(state="opened"))

    assert (found.missing, found.damaged, found.has_index) == ((), (), True)
    assert found.key is not None
    assert found.key_digest == sha256(KEY.strip().encode()).hexdigest()


def test_the_tree_of_the_owners_modules_is_looked_for_where_the_lockfile_names_one(
    own: Store,
) -> None:
    tree = sha256(b"tree").hexdigest()
    own.put(PINNED.index, [INDEX])
    own.put(PINNED.packages[0].sha256, [b"content"])

    lacking = look(own, "rig", PINNED, "", Passphrase(), tree=tree)
    own.put(tree, [b"tree"])

    assert lacking.missing == ("the tree of driver_modules",)
    assert look(own, "rig", PINNED, "", Passphrase(), tree=tree).missing == ()


def test_what_is_absent_or_of_another_content_is_named(own: Store) -> None:
    missing = look(own, "rig", PINNED, ID, Passphrase())
    own.put(PINNED.packages[0].sha256, [b"content"])
    own.place(PINNED.packages[0].sha256).write_bytes(b"c0ntent")
    damaged = look(own, "rig", PINNED, ID, Passphrase())

    assert (missing.missing, missing.damaged, missing.has_index) == (("a 1",), (), False)
    assert (damaged.missing, damaged.damaged) == ((), ("a 1",))
    assert (missing.key, missing.key_digest) == (None, "")


def test_a_key_of_another_repository_is_none(own: Store) -> None:
    put_key(own, "rig", KEY)

    assert look(own, "rig", None, "ab" * 32, Passphrase()).key is None
    assert look(own, "rig", None, "", Passphrase()).key is None
