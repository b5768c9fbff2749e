"""Kept bundles: private, the same each time, and never in the place of something else."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rigops import atomic_file
from rigops.errors import UsageError
from rigops.probe.bundle import MOST_BYTES, Bundle, Collected
from rigops.probe.bundles.reading import read_all
from rigops.probe.bundles.saving import save, save_all
from tests.unit.probe import answers

if TYPE_CHECKING:
    from pathlib import Path

BUNDLE = answers.bundle(answers.BROKEN)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_an_archive_is_private_and_says_nothing_about_who_made_it(tmp_path: Path) -> None:
    path = save(replace(BUNDLE, host="../we ird\n"), tmp_path / "deep/er/rig.tar.gz")

    assert mode(path) == 0o600
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
        members = archive.getmembers()
    assert members[0].name == "we-ird/meta.json"
    assert [one.name for one in members[1:]] == sorted(one.name for one in members[1:])
    assert {one.name.split("/")[0] for one in members} == {"we-ird"}
    assert {(one.uid, one.gid, one.uname, one.gname, one.mtime) for one in members} == {
        (0, 0, "", "", 1769882400)
    }


def test_the_same_bundle_is_the_same_archive(tmp_path: Path) -> None:
    shuffled = replace(BUNDLE, sections=dict(sorted(BUNDLE.sections.items(), reverse=True)))
    once, again = (
        save(one, tmp_path / f"{number}.tgz").read_bytes()
        for number, one in enumerate((BUNDLE, BUNDLE))
    )
    other = save(shuffled, tmp_path / "other.tgz")

    assert once == again
    assert read_all(other) == [BUNDLE]


@pytest.mark.parametrize("collected_at", [None, "yesterday", "2026-01-31", "9999-12-31T23:59:59Z"])
def test_any_time(tmp_path: Path, collected_at: str | None) -> None:
    bundle = replace(BUNDLE, collected_at=collected_at)

    assert read_all(save(bundle, tmp_path / "x.tgz")) == [bundle]


def test_a_directory_is_private_too(tmp_path: Path) -> None:
    path = save(BUNDLE, tmp_path / "rig")

    assert mode(path) == 0o700
    assert {mode(file) for file in path.iterdir()} == {0o600}
    assert [one.name for one in tmp_path.iterdir()] == ["rig"]
    several = save_all([BUNDLE, BUNDLE], tmp_path / "all")
    assert sorted(one.name for one in several.iterdir()) == ["rig", "rig-2"]
    assert mode(several / "rig-2") == 0o700


@pytest.mark.parametrize("name", ["rig.tar.gz", "rig"])
@pytest.mark.parametrize("what", ["file", "full directory", "link to nowhere"])
def test_nothing_is_overwritten(tmp_path: Path, name: str, what: str) -> None:
    path = tmp_path / name
    if what == "file":
        path.write_text("mine")
    elif what == "full directory":
        path.mkdir()
        (path / "mine").write_text("mine")
    else:
        path.symlink_to(tmp_path / "nowhere")

    with pytest.raises(UsageError, match="not overwritten") as caught:
        save(BUNDLE, path)

    assert caught.value.problems[0].file == str(path)
    assert caught.value.problems[0].fix
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "rig").mkdir()

    assert read_all(save(BUNDLE, tmp_path / "rig")) == [BUNDLE]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="cannot be written"):
        save(BUNDLE, tmp_path / "file/rig.tar.gz")


def test_a_failure_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", fail)
    monkeypatch.setattr(atomic_file, "replace", fail)
    for name in ("rig", "rig.tgz"):
        with pytest.raises(UsageError, match="No space left"):
            save(BUNDLE, tmp_path / name)

    assert list(tmp_path.iterdir()) == []


def test_a_name_that_no_file_can_have_is_not_written(tmp_path: Path) -> None:
    sections = {"../x": BUNDLE.sections["uname"], "uname": BUNDLE.sections["uname"]}
    hostile = Bundle("rig", None, root=False, sections=sections)

    assert list(read_all(save(hostile, tmp_path / "rig"))[0].sections) == ["uname"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["rig"]


def test_what_would_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    text = f"{'x' * 200}\n" * (MOST_BYTES // 200)
    bundle = Bundle("post", None, root=False, sections={"pasted": Collected(text)})

    with pytest.raises(UsageError, match="not written: pasted is longer than 16 MiB"):
        save(bundle, tmp_path / "saved")

    assert not list(tmp_path.iterdir())
