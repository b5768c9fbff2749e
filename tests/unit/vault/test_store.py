from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.errors import RigopsError
from rigops.vault.store import Store, default_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = b"a package"
DIGEST = sha256(DATA).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data" / "vault")


def test_a_file_lies_under_its_digest_and_nobody_else_may_write_it(store: Store) -> None:
    before = os.umask(0)
    try:
        store.put(DIGEST, [DATA[:3], DATA[3:]])
    finally:
        os.umask(before)

    place = store.folder / "sha256" / DIGEST[:2] / DIGEST[2:]
    assert place.read_bytes() == DATA
    for path in (place, *(one for one in place.parents if store.folder in (one, *one.parents))):
        assert path.stat().st_mode & 0o022 == 0
    assert b"".join(store.pieces(DIGEST)) == DATA
    assert store.has(DIGEST, len(DATA))


def test_what_is_something_else_is_not_kept(store: Store) -> None:
    with pytest.raises(RigopsError, match=DIGEST):
        store.put(DIGEST, [DATA, b"!"])

    assert [path for path in store.folder.rglob("*") if path.is_file()] == []


def test_nothing_stays_of_what_was_interrupted(store: Store) -> None:
    def pieces() -> Iterator[bytes]:
        yield DATA
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.put(DIGEST, pieces())

    assert [path for path in store.folder.rglob("*") if path.is_file()] == []


def test_a_text_that_was_changed_is_none(store: Store) -> None:
    store.put(DIGEST, [DATA])
    assert store.text(DIGEST) == DATA.decode()

    store.place(DIGEST).write_bytes(b"another")

    assert store.text(DIGEST) is None
    assert store.text("0" * 64) is None
    assert not store.has(DIGEST, len(DATA))


@pytest.mark.parametrize("lives", [0, 1])
def test_a_file_that_another_process_removes_does_not_end_the_count(
    store: Store, monkeypatch: pytest.MonkeyPatch, lives: int
) -> None:
    """`lives`: how often its size can be asked before it is gone."""
    store.put(DIGEST, [DATA])
    temporary = store.place(DIGEST).with_name(".new-abc")
    temporary.write_bytes(b"half")
    real, asked = Path.stat, 0

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        nonlocal asked
        if path == temporary:
            asked += 1
            if asked > lives:
                temporary.unlink(missing_ok=True)
        return real(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", stat)

    assert store.size() == len(DATA) + (len(b"half") if lives else 0)


def test_a_folder_that_cannot_be_written_is_named_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(RigopsError) as error:
        Store(tmp_path / "file" / "vault").put(DIGEST, [DATA])

    (problem,) = error.value.problems
    assert problem.key == "rigops_vault"
    assert str(tmp_path / "file" / "vault") in problem.message


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"XDG_DATA_HOME": "/data"}, Path("/data/rigops/vault")),
        ({"XDG_DATA_HOME": "relative"}, Path.home() / ".local/share/rigops/vault"),
        ({}, Path.home() / ".local/share/rigops/vault"),
    ],
)
def test_its_place_is_the_users_data(environment: dict[str, str], folder: Path) -> None:
    assert default_folder(environment) == folder


def test_the_inventory_may_name_another_place() -> None:
    assert Store.from_declared("~/vault").folder == Path.home() / "vault"
    assert Store.from_declared(None).folder == default_folder()
