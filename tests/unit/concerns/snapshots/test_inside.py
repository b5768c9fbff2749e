"""Paths in a snapshot lead through no link."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.snapshots.host.inside import find_inside, is_file, open_inside

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    top = tmp_path / "snapshot"
    (top / "a/b").mkdir(parents=True)
    (top / "a/b/file").write_text("x")
    (top / "inward").symlink_to("a")
    (top / "outward").symlink_to("..")
    (top / "absolute").symlink_to("/")
    (top / "to-file").symlink_to("a/b/file")
    os.mkfifo(top / "fifo")
    (tmp_path / "secret").write_text("x")
    return str(top)


def test_what_is_there_is_found(snapshot: str) -> None:
    for path in (".", "", "a", "a/b/file", "./a//b", "to-file", "fifo"):
        assert find_inside(snapshot, path) is not None, path
    with open_inside(snapshot, "a/b/file") as entry:
        assert os.stat("file", dir_fd=entry.folder.number).st_size == 1
        assert entry.name == "file"
    with open_inside(snapshot, "/") as entry:
        assert entry.folder.entry("a").is_folder
        assert entry.name == "."


def test_behind_a_link_there_is_nothing(snapshot: str) -> None:
    paths = (
        "inward/b", "outward/secret", "absolute/etc/passwd", "../secret", "a/../../secret", "..",
        "a/..", "to-file/x", "a/b/file/x", "gone", "gone/x",
    )  # fmt: skip
    assert [path for path in paths if find_inside(snapshot, path) is not None] == []


def test_only_a_regular_file_is_one(snapshot: str) -> None:
    assert is_file(snapshot, b"a/b/file")
    for path in (b"a", b"fifo", b"to-file", b"inward/b/file", b"gone", b"\xff"):
        assert not is_file(snapshot, path), path
