"""What root touches below a folder of a user stays what was opened, and no link leads away."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from rigops.hostside.shared import beneath
from rigops.hostside.shared.beneath import (
    make_private,
    move,
    open_any,
    open_beneath,
    open_folder,
    open_parent,
    open_regular,
    open_typed,
    put_in_place,
    without_links,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

OPENERS = (open_folder, open_any, open_regular, open_parent)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """`victim` is not the user's; `eve` is."""
    for name in ("victim/deep", "eve/work/deep"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("victim/deep/file", "eve/work/deep/file"):
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize("opened", OPENERS)
@pytest.mark.parametrize("target", ["../victim", "/", "work", "nowhere"])
def test_a_link_on_the_way_is_refused_and_named(
    home: Path, opened: Callable[[str], AbstractContextManager[object]], target: str
) -> None:
    (home / "eve/link").symlink_to(target)

    with (
        pytest.raises(OSError, match="symbolic link") as refused,
        opened(f"{home}/eve/link/deep/x"),
    ):
        pass

    assert refused.value.filename == f"{home}/eve/link"


@pytest.mark.parametrize("opened", [open_folder, open_any, open_regular])
def test_a_link_at_the_end_is_refused(
    home: Path, opened: Callable[[str], AbstractContextManager[object]]
) -> None:
    (home / "eve/link").symlink_to(home / "victim")
    (home / "eve/file").symlink_to(home / "victim/deep/file")

    for name in ("link", "file"):
        with pytest.raises(OSError, match=r"."), opened(f"{home}/eve/{name}"):
            pass


def test_a_folder_that_is_swapped_meanwhile_stays_what_was_opened(home: Path) -> None:
    with open_folder(f"{home}/eve/work") as work:
        (home / "eve/work").rename(home / "eve/away")
        (home / "eve/work").symlink_to(home / "victim")

        with open_beneath(work, "deep") as deep:
            (home / "new").write_text("new")
            with open_parent(f"{home}/new") as new:
                move(new, deep.entry("new"))

    assert (home / "eve/away/deep/new").read_text() == "new"
    assert not (home / "victim/deep/new").exists()


@pytest.mark.parametrize("inside", ["..", "deep/../..", "."])
def test_a_path_goes_down_only(home: Path, inside: str) -> None:
    with (
        open_folder(f"{home}/eve/work") as work,
        pytest.raises(OSError, match="written out"),
        open_beneath(work, inside),
    ):
        pass


def test_a_link_at_the_end_of_what_was_typed_is_meant(home: Path) -> None:
    (home / "link").symlink_to(home / "victim")

    with open_typed(f"{home}/link") as folder:
        assert folder.names() == ["deep"]


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "device"])
def test_what_is_no_regular_file_is_not_waited_for(home: Path, kind: str) -> None:
    path = home / "eve/odd"
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        os.mknod(path, 0o140600)

    with pytest.raises(OSError, match=r"."), open_regular(str(path)):
        pass


def test_nothing_is_overwritten(home: Path) -> None:
    with (
        open_folder(f"{home}/eve") as eve,
        open_folder(f"{home}/victim") as victim,
        pytest.raises(FileExistsError),
    ):
        move(eve.entry("work"), victim.entry("deep"))

    assert (home / "victim/deep/file").read_text() == "victim/deep/file"


@pytest.mark.parametrize("knows_exchange", [True, False])
def test_what_was_in_the_place_goes_aside_whole(
    home: Path, monkeypatch: pytest.MonkeyPatch, *, knows_exchange: bool
) -> None:
    if not knows_exchange:
        monkeypatch.setattr(beneath, "_EXCHANGE", 1 << 20)  # EINVAL, as of an old kernel

    with open_folder(f"{home}/eve") as eve, open_folder(f"{home}/victim") as victim:
        put_in_place(victim.entry("deep"), eve.entry("work"), eve.entry("aside"))

    assert (home / "eve/work/file").read_text() == "victim/deep/file"
    assert (home / "eve/aside/deep/file").read_text() == "eve/work/deep/file"
    assert not (home / "victim/deep").exists()


def test_a_private_folder_is_a_new_one(home: Path) -> None:
    with open_folder(f"{home}/eve") as eve:
        with make_private(eve.entry("made")) as made:
            assert os.fstat(made.number).st_mode & 0o777 == 0o700
        with pytest.raises(FileExistsError), make_private(eve.entry("work")):
            pass


def test_a_folder_in_the_place_of_the_private_one_is_not_taken_for_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "open").mkdir(mode=0o777)
    (home / "open").chmod(0o777)

    def swapped(name: str, mode: int, *, dir_fd: int) -> None:
        del mode
        os.rename("open", name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", swapped)

    with (
        open_folder(str(home)) as folder,
        pytest.raises(OSError, match="another program"),
        make_private(folder.entry("made")),
    ):
        pass


def test_only_links_of_root_in_folders_of_root_are_followed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "eve/link").symlink_to(home / "victim")
    (home / "eve/relative").symlink_to("../eve/./work")
    (home / "eve/loop").symlink_to("loop")

    monkeypatch.setattr(beneath, "_is_roots", lambda link, _: "eve" in link)
    assert without_links(f"{home}/eve/link/deep") == f"{home}/victim/deep"
    assert without_links(f"{home}/eve/relative/deep") == f"{home}/eve/work/deep"
    assert without_links(f"{home}/eve/not/there") == f"{home}/eve/not/there"
    assert without_links("/") == "/"
    with pytest.raises(OSError, match="symbolic link"):
        without_links(f"{home}/eve/loop")

    monkeypatch.setattr(beneath, "_is_roots", lambda *_: False)
    with pytest.raises(OSError, match="a user can change") as refused:
        without_links(f"{home}/eve/link/deep")
    assert refused.value.filename == f"{home}/eve/link"


@pytest.mark.parametrize("said", [errno.ENODEV, errno.EHOSTDOWN])
def test_an_automount_whose_disk_is_away_is_nothing_that_is_there(
    home: Path, monkeypatch: pytest.MonkeyPatch, said: int
) -> None:
    opened = os.open

    def away(name: str, flags: int, **more: int) -> int:
        if name == "eve":
            raise OSError(said, os.strerror(said))
        return opened(name, flags, **more)

    monkeypatch.setattr(os, "open", away)
    with pytest.raises(FileNotFoundError) as absent, open_folder(f"{home}/eve/work"):
        pass
    assert absent.value.filename == f"{home}/eve"
