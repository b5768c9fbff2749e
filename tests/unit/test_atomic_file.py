from __future__ import annotations

import stat
from pathlib import Path

import pytest

from rigops import atomic_file


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_its_content_and_mode(tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    atomic_file.replace(path, "{}\n", 0o644)
    assert path.read_text() == "{}\n"
    assert mode_of(path) == 0o644


def test_bytes_replace_what_was_there_and_so_does_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("old and longer than the new")
    path.chmod(0o644)
    atomic_file.replace(path, b"\x00\xff", 0o600)
    assert path.read_bytes() == b"\x00\xff"
    assert mode_of(path) == 0o600


def test_a_symlink_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    target = tmp_path / "dotfiles" / "config"
    target.write_text("old")
    link = tmp_path / "config"
    link.symlink_to("dotfiles/config")
    atomic_file.replace(link, "new", 0o644)
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["config"]


def test_a_symlink_to_nothing_yet_gets_its_target(tmp_path: Path) -> None:
    link = tmp_path / "config"
    link.symlink_to("later")
    atomic_file.replace(link, "new", 0o644)
    assert link.is_symlink()
    assert (tmp_path / "later").read_text() == "new"


@pytest.mark.parametrize("failing", ["pathlib.Path.replace", "os.fsync", "os.fchmod"])
def test_a_crash_leaves_the_old_content_and_nothing_else(
    failing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "lock.json"
    path.write_text("old")

    def crash(*_arguments: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(failing, crash)
    with pytest.raises(OSError, match="the disk is gone"):
        atomic_file.replace(path, "new", 0o644)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_content_is_never_readable_under_a_looser_mode(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    real_replace = Path.replace

    def look(aside: Path, target: Path) -> Path:
        seen.append(mode_of(aside))
        return real_replace(aside, target)

    monkeypatch.setattr(Path, "replace", look)
    atomic_file.replace(tmp_path / "passphrase", "secret", 0o600)
    assert seen == [0o600]
