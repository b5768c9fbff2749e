from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Rigops

INVENTORY = 'rigs = [("a", {"driver": "535"}), ("b", {"kernel_args": []})]\n'


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nobody",), "no such host in the inventory"),
        (("b",), "no driver is declared for b"),
        (("a", "--what", "root"), "not in this version"),
        (("a", "--what", "config"), "not in this version"),
        ((), "HOST"),
    ],
)
def test_what_cannot_go_back_is_said_before_anything_is_reached(
    rigops: Rigops, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    (tmp_path / "inventory.py").write_text(INVENTORY)

    said = rigops("rollback", *words)

    assert said.code == 2
    assert says in said.err


@pytest.mark.parametrize("command", ["rollback a", "plan --limit a"])
def test_a_damaged_lock_is_an_error_that_says_what_to_do(
    rigops: Rigops, tmp_path: Path, command: str
) -> None:
    (tmp_path / "inventory.py").write_text(INVENTORY)
    (tmp_path / "inventory.lock.json").write_text("<<<<<<< HEAD\n")

    said = rigops(*command.split())

    assert said.code == 2
    assert "inventory.lock.json is damaged" in said.err
    assert "git" in said.err
