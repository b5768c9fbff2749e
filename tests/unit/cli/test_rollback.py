from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.cli.conftest import apart

if TYPE_CHECKING:
    from pathlib import Path

INVENTORY = 'rigs = [("a", {"driver": "535"}), ("b", {"kernel_args": []})]\n'
REFUSED: dict[tuple[str, ...], str] = {
    ("nobody",): "not in the inventory",
    ("b",): "no driver is declared for b",
    ("a", "--at", "3d"): "only --what root takes a time",
    ("a", "--what", "root", "--at", "soon"): "not a time",
    ("a", "--what", "root", "--reboot", "never"): "the root changes only with a reboot",
    (): "HOST",
}


def test_what_cannot_go_back_is_said_before_anything_is_reached(tmp_path: Path) -> None:
    (tmp_path / "inventory.py").write_text(INVENTORY)

    every = apart(tmp_path, *(("rollback", *words) for words in REFUSED))

    for (words, says), said in zip(REFUSED.items(), every, strict=True):
        assert said.code == 2, words
        assert says in said.err


def test_a_damaged_lock_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "inventory.py").write_text(INVENTORY)
    (tmp_path / "inventory.lock.json").write_text("<<<<<<< HEAD\n")

    for said in apart(tmp_path, ["rollback", "a"], ["plan", "--limit", "a"]):
        assert said.code == 2
        assert "inventory.lock.json is damaged" in said.err
        assert "git" in said.err


def test_a_broken_catalog_ends_a_plan_before_anything_is_reached(tmp_path: Path) -> None:
    (tmp_path / "inventory.py").write_text('rigs = [("nowhere.invalid", {"catalog": "own.toml"})]')

    (said,) = apart(tmp_path, ["plan", "--json"])

    assert said.code == 2
    (error,) = said.json()["errors"]
    assert error["file"] == str(tmp_path / "own.toml")
    assert "cannot read the catalog file" in error["message"]
