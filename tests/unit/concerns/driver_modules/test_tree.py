from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from rigops.concerns.driver_modules import tree
from rigops.errors import RigopsError
from tests.unit.concerns.driver_modules.trees import VERSION, committed, files, packed, written


def _refused(path: Path) -> str:
    with pytest.raises(RigopsError) as refused:
        tree.read(str(path))
    assert all(one.key == "driver_modules" and one.fix for one in refused.value.problems)
    return str(refused.value).replace(str(path), "TREE")


def test_a_folder_a_checkout_and_an_archive_of_one_tree_are_the_same(tmp_path: Path) -> None:
    folder = tree.read(str(written(tmp_path / "folder", files())))
    archive = tree.read(str(packed(tmp_path / "tree.tar.gz", files())))
    checkout = written(tmp_path / "checkout", files())
    commit = committed(checkout)
    by_git = tree.read(str(checkout))

    assert folder.version == VERSION
    assert folder.digest == archive.digest == by_git.digest
    assert folder.archive == archive.archive == by_git.archive
    assert (folder.commit, by_git.commit, by_git.has_changes) == ("", commit, False)
    with tarfile.open(fileobj=io.BytesIO(folder.archive)) as tar:
        assert [one.name for one in tar] == sorted(files())
        assert {one.name for one in tar if one.mode == 0o755} == {"kernel-open/conftest.sh"}
        assert all((one.uid, one.mtime, one.isfile()) == (0, 0, True) for one in tar)


def test_what_a_build_left_behind_is_not_in_it(tmp_path: Path) -> None:
    clean = tree.read(str(written(tmp_path / "clean", files())))
    built = written(
        tmp_path / "built",
        files()
        | {
            "src/nvidia/_out/Linux_x86_64/nv-kernel.o": "object",
            "kernel-open/nvidia.ko": "module",
            "kernel-open/Module.symvers": "symbols",
        },
    )
    (built / "kernel-open/nvidia/nv-kernel.o_binary").symlink_to("../../src/nvidia/_out/o")

    assert tree.read(str(built)).digest == clean.digest


def test_of_a_checkout_only_what_is_committed_counts(tmp_path: Path) -> None:
    checkout = written(tmp_path / "checkout", files())
    committed(checkout)
    (checkout / "kernel-open/nvidia/nv.c").write_text("int changed;\n")
    (checkout / "kernel-open/nvidia/new.c").write_text("int new;\n")

    found = tree.read(str(checkout))

    assert found.has_changes
    assert found.digest == tree.read(str(packed(tmp_path / "tree.tar.gz", files()))).digest


def test_a_changed_file_or_mode_is_another_tree(tmp_path: Path) -> None:
    one = tree.read(str(written(tmp_path / "one", files())))
    text = tree.read(str(written(tmp_path / "two", files() | {"Makefile": "all:\n"})))
    mode = written(tmp_path / "three", files())
    (mode / "Makefile").chmod(0o755)

    assert len({one.digest, text.digest, tree.read(str(mode)).digest}) == 3


def test_a_tree_without_one_version_is_refused(tmp_path: Path) -> None:
    two = written(tmp_path / "two", files("595.71.05", header="595.71.06"))
    lacking = files()
    del lacking["version.mk"]

    assert _refused(written(tmp_path / "lacking", lacking)) == "TREE has no version.mk"
    assert _refused(two) == (
        "TREE is of two versions (595.71.05 in version.mk, 595.71.05 in kernel-open/Kbuild, "
        "595.71.06 in src/common/inc/nvUnixVersion.h)"
    )
    words = files() | {"version.mk": "NVIDIA_VERSION = $(shell id)\n"}
    assert "names no version of NVIDIA's in version.mk" in _refused(
        written(tmp_path / "words", words)
    )


def test_what_is_no_regular_file_or_has_no_plain_name_is_refused(tmp_path: Path) -> None:
    linked = written(tmp_path / "linked", files())
    (linked / "kernel-open/common").symlink_to("/etc")
    spaced = written(tmp_path / "spaced", files() | {"src/a b.c": ""})
    out = packed(tmp_path / "out.tar.gz", files() | {"../../x.c": ""}, top="")

    assert _refused(linked) == "TREE has kernel-open/common, which is no regular file"
    assert "unusual name: 'src/a b.c'" in _refused(spaced)
    assert "unusual name: '../../x.c'" in _refused(out)


def test_what_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no.tar.gz").write_bytes(b"\x1f\x8b no archive")
    (tmp_path / "empty/.git").mkdir(parents=True)

    assert "is no folder, git checkout or .tar.gz" in _refused(tmp_path / "absent")
    assert "cannot be read" in _refused(tmp_path / "no.tar.gz")
    assert "is no usable git checkout" in _refused(tmp_path / "empty")
    monkeypatch.setattr(tree, "MOST_FILES", 3)
    assert "more than 3 files" in _refused(written(tmp_path / "many", files()))
