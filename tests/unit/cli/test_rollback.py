from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.unit.cli.conftest import Said

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Rigops

INVENTORY = 'rigs = [("a", {"driver": "535"}), ("b", {"kernel_args": []})]\n'


@pytest.fixture
def rigops(tmp_path: Path) -> Rigops:
    """In a process of its own: what converges makes gevent replace the threads of all of it."""

    def run(*arguments: str) -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "rigops", *arguments],
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path / "home")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return run


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nobody",), "not in the inventory"),
        (("b",), "no driver is declared for b"),
        (("a", "--at", "3d"), "only --what root takes a time"),
        (("a", "--what", "root", "--at", "soon"), "not a time"),
        (("a", "--what", "root", "--reboot", "never"), "the root changes only with a reboot"),
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


def test_a_broken_catalog_ends_a_plan_before_anything_is_reached(
    rigops: Rigops, tmp_path: Path
) -> None:
    (tmp_path / "inventory.py").write_text('rigs = [("nowhere.invalid", {"catalog": "own.toml"})]')

    said = rigops("plan", "--json")

    assert said.code == 2
    (error,) = said.json()["errors"]
    assert error["file"] == str(tmp_path / "own.toml")
    assert "cannot read the catalog file" in error["message"]
