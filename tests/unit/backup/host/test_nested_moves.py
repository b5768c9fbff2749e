"""Subvolumes inside move over, whatever is in their place; here they are folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.backup.host.nested_moves import move_nested

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    old, new = tmp_path / "old", tmp_path / "new"
    (old / "srv/a/inner").mkdir(parents=True)
    (old / "srv/a/file").write_text("data")
    (old / "deep/er").mkdir(parents=True)
    (old / "deep").chmod(0o711)
    (new / "srv/a").mkdir(parents=True)
    return old, new


def test_they_come_with_all_that_is_in_them_and_with_the_folders_above(
    roots: tuple[Path, Path],
) -> None:
    old, new = roots

    assert move_nested(str(old), str(new), ["srv/a/inner", "srv/a", "deep/er"]) == []

    assert (new / "srv/a/file").read_text() == "data"
    assert (new / "srv/a/inner").is_dir()
    assert (new / "deep/er").is_dir()
    assert (new / "deep").stat().st_mode & 0o777 == 0o711
    assert not (old / "srv/a").exists()


def test_once_more_changes_nothing(roots: tuple[Path, Path]) -> None:
    old, new = roots
    move_nested(str(old), str(new), ["srv/a"])

    assert move_nested(str(old), str(new), ["srv/a"]) == []
    assert (new / "srv/a/file").read_text() == "data"


def test_what_is_in_their_place_gets_another_name(roots: tuple[Path, Path]) -> None:
    old, new = roots
    (new / "srv/a/written").write_text("meanwhile")
    (new / "deep").symlink_to(old)

    displaced = move_nested(str(old), str(new), ["srv/a", "deep/er"])

    assert displaced == ["/deep.rigops-aside1", "/srv/a.rigops-aside1"]
    assert (new / "srv/a.rigops-aside1/written").read_text() == "meanwhile"
    assert (new / "srv/a/file").read_text() == "data"
    assert (new / "deep/er").is_dir()
    assert not (new / "deep").is_symlink()
