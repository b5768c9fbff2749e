"""Directories of a stranger: nothing outside of them is read, nothing is waited for."""

from __future__ import annotations

import os
import socket
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from rigops.errors import UsageError
from rigops.probe import bundle
from rigops.probe.bundle import MOST_BYTES, Bundle
from rigops.probe.bundles import reading, saving
from rigops.probe.bundles.reading import read_all
from tests.unit.probe.bundles.archives import UNAME

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECRET = "root:$6$secret"


def link(path: Path) -> None:
    path.symlink_to(path.parent.parent / "secret")


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def dangling_link(path: Path) -> None:
    path.symlink_to("/nonexistent")


def link_to_a_neighbor(path: Path) -> None:
    path.symlink_to("uname")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def listening_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


def device(path: Path) -> None:
    os.mknod(path, 0o20666, os.makedev(1, 5))


def longer_than_any(path: Path) -> None:
    sparse(path, MOST_BYTES + 1)


def terabyte(path: Path) -> None:
    sparse(path, 2**40)


def sparse(path: Path, size: int) -> None:
    path.touch()
    os.truncate(path, size)


FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a link": (link, "a link, which is not followed"),
    "a link to a device": (link_to_a_device, "a link, which is not followed"),
    "a dangling link": (dangling_link, "a link, which is not followed"),
    "a link to its neighbor": (link_to_a_neighbor, "a link, which is not followed"),
    "a FIFO": (fifo, "no regular file"),
    "a socket": (listening_socket, "no regular file"),
    "a device": (device, "no regular file"),
    "a file that is too long": (longer_than_any, "longer than 16 MiB"),
    "a sparse file": (terabyte, "longer than 16 MiB"),
}


@pytest.mark.parametrize("name", ["pci", "meta.json", "README"])
@pytest.mark.parametrize(("plant", "message"), FILES.values(), ids=list(FILES))
def test_a_planted_file_is_named_and_nothing_of_it_is_read(
    tmp_path: Path, plant: Callable[[Path], None], message: str, name: str
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    rig = tmp_path / "rig"
    rig.mkdir()
    (rig / "uname").write_text(UNAME)
    try:
        plant(rig / name)
    except PermissionError:
        pytest.skip("only root makes devices")
    tracemalloc.start()

    for given in (rig, tmp_path):  # itself, and as one of several
        if given == tmp_path:
            (tmp_path / "secret").unlink()
        with pytest.raises(UsageError) as caught:
            read_all(given)
        (problem,) = caught.value.problems
        assert message in problem.message
        assert problem.file == str(rig / name)
        assert problem.fix

    assert tracemalloc.get_traced_memory()[1] < MOST_BYTES + 16 * 1024 * 1024
    tracemalloc.stop()


def test_links_to_directories_are_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "uname").write_text(SECRET)
    given = tmp_path / "given"
    (given / "rig").mkdir(parents=True)
    (given / "rig/uname").write_text(UNAME)
    (given / "linked").symlink_to(other)
    (given / "rig/pci").symlink_to(other)

    with pytest.raises(UsageError, match="a link, which is not followed"):
        read_all(given)
    (given / "rig/pci").unlink()

    assert [one.host for one in read_all(given)] == ["rig"]


def test_what_the_user_names_may_be_a_link(tmp_path: Path) -> None:
    saved = Bundle("rig", None, root=False, sections={})
    for name in ("saved", "saved.tar.gz"):
        saving.save(saved, tmp_path / name)
        (tmp_path / "link").symlink_to(tmp_path / name)

        assert read_all(tmp_path / "link") == [saved]
        (tmp_path / "link").unlink()


def test_many_files_and_much_content_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (bundle, reading):
        monkeypatch.setattr(module, "MOST_CONTENT", 4 * 1024 * 1024)
    monkeypatch.setattr(bundle, "MOST_MEMBERS", 20)
    folders = [tmp_path / "much" / str(number) for number in range(3)]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "uname").write_text(UNAME)
        sparse(folder / "pci", 2 * 1024 * 1024)

    assert len(read_all(folders[0])) == 1
    with pytest.raises(UsageError, match="has more than 4 MiB"):
        read_all(tmp_path / "much")

    many = tmp_path / "many"
    many.mkdir()
    for number in range(21):
        (many / f"s{number}").touch()
    with pytest.raises(UsageError, match="more than 20 files"):
        read_all(many)


TAKEN: dict[str, Callable[[Path], object]] = {
    "a file": lambda path: path.write_text("mine"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to a file": lambda path: path.symlink_to("secret"),
    "a link to an empty directory": lambda path: path.symlink_to("empty"),
    "a FIFO": fifo,
    "a directory that is not empty": lambda path: (path / "mine").mkdir(parents=True),
}


@pytest.mark.parametrize("name", ["rig", "rig.tar.gz"])
@pytest.mark.parametrize("take", TAKEN.values(), ids=list(TAKEN))
def test_nothing_is_saved_over_or_through_what_is_there(
    tmp_path: Path, take: Callable[[Path], object], name: str
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "empty").mkdir()
    take(tmp_path / name)
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(UsageError, match="already exists; not overwritten"):
        saving.save(Bundle("rig", None, root=False, sections={}), tmp_path / name)

    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "secret").read_text() == SECRET
