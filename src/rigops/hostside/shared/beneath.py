"""Paths that a user can write, as root touches them: by descriptors, and through no link.

Whatever a user renames or swaps meanwhile, what was opened stays what is worked on.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

NO_LINKS = "is no folder, or a symbolic link, which is not followed here"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_DISK_IS_AWAY = (errno.ENODEV, errno.EHOSTDOWN)  # as systemd answers for an automount
_MOST_LINKS = 40  # as the kernel has it
_NO_REPLACE, _EXCHANGE = 1, 2
_NOT_KNOWN = (errno.EINVAL, errno.ENOSYS)  # to this file system, or to this kernel


class Folder(NamedTuple):
    """One that is open. `path`: for people."""

    path: str
    number: int

    @property
    def at(self) -> str:
        """A path to it for this process and for those that it starts."""
        return f"/proc/{os.getpid()}/fd/{self.number}"

    def entry(self, name: str) -> Entry:
        return Entry(self, name)

    def names(self) -> list[str]:
        return os.listdir(self.number)  # noqa: PTH208 - Path knows no descriptor

    @property
    def device(self) -> int:
        return os.fstat(self.number).st_dev

    def is_same(self, other: Folder) -> bool:
        return os.path.samestat(os.fstat(self.number), os.fstat(other.number))

    def is_copy(self, snapshot: Folder) -> bool:
        """A stand-in of it in a snapshot has the same number there."""
        return os.fstat(self.number).st_ino == os.fstat(snapshot.number).st_ino


class Entry(NamedTuple):
    """A name in an open folder, whether something has it or not."""

    folder: Folder
    name: str

    @property
    def path(self) -> str:
        return f"{self.folder.path.rstrip('/')}/{self.name}"

    @property
    def at(self) -> str:
        return f"{self.folder.at}/{self.name}"

    def look(self) -> os.stat_result | None:
        """Of a link itself. None: nothing has this name."""
        try:
            return os.stat(self.name, dir_fd=self.folder.number, follow_symlinks=False)
        except FileNotFoundError:
            return None

    @property
    def is_folder(self) -> bool:
        found = self.look()
        return found is not None and stat.S_ISDIR(found.st_mode)


@contextmanager
def open_folder(path: str) -> Iterator[Folder]:
    """A link anywhere in the path is an error, as is what is no folder."""
    root = os.open("/", _FOLDER)
    try:
        number = _descend(root, path.strip("/"), "")
    finally:
        os.close(root)
    try:
        yield Folder(path, number)
    finally:
        os.close(number)


@contextmanager
def open_typed(path: str) -> Iterator[Folder]:
    """A folder that a person named just now: links in its path are meant."""
    number = os.open(path, _FOLDER)
    try:
        yield Folder(path, number)
    finally:
        os.close(number)


@contextmanager
def open_parent(path: str) -> Iterator[Entry]:
    """The last part of the path may be anything."""
    above, name = os.path.split(path)
    with open_folder(above) as folder:
        yield Entry(folder, name)


@contextmanager
def open_regular(path: str) -> Iterator[IO[bytes]]:
    """A file to read. Anything but a regular file is an error, without waiting."""
    with open_parent(path) as entry:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        number = os.open(entry.name, flags, dir_fd=entry.folder.number)
    with os.fdopen(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "is no regular file", path)
        yield file


@contextmanager
def open_any(path: str) -> Iterator[Folder]:
    """A folder, or a file, which can be shown elsewhere by `bind`; no link."""
    with open_parent(path) as entry:
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        number = os.open(entry.name or ".", flags, dir_fd=entry.folder.number)
    try:
        if stat.S_ISLNK(os.fstat(number).st_mode):
            raise OSError(errno.ELOOP, NO_LINKS, path)
        yield Folder(path, number)
    finally:
        os.close(number)


@contextmanager
def open_beneath(start: Folder, inside: str) -> Iterator[Folder]:
    """`inside`: names with slashes between, or nothing: the same folder again."""
    number = _descend(start.number, inside, start.path)
    try:
        yield Folder(f"{start.path.rstrip('/')}/{inside}" if inside else start.path, number)
    finally:
        os.close(number)


def _descend(start: int, inside: str, path: str) -> int:
    at = os.dup(start)
    try:
        for name in filter(None, inside.split("/")):
            path = f"{path.rstrip('/')}/{name}"
            deeper = _open_one(name, at, path)
            os.close(at)
            at = deeper
    except BaseException:
        os.close(at)
        raise
    return at


def _open_one(name: str, above: int, path: str) -> int:
    if name in {".", ".."}:
        raise OSError(errno.EINVAL, "is not written out", path)
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        if error.errno in _DISK_IS_AWAY:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
        is_led_away = error.errno in (errno.ELOOP, errno.ENOTDIR)
        raise OSError(error.errno, NO_LINKS if is_led_away else error.strerror, path) from error


@contextmanager
def make_private(new: Entry) -> Iterator[Folder]:
    """A new folder that only root gets into; another one in its place is not taken for it."""
    os.mkdir(new.name, 0o700, dir_fd=new.folder.number)
    with open_beneath(new.folder, new.name) as made:
        if not is_private(os.fstat(made.number)):
            raise OSError(errno.EEXIST, "was put there by another program just now", made.path)
        yield made


def is_private(found: os.stat_result) -> bool:
    """Only this user can put something into it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def without_links(path: str) -> str:
    """The path behind links that only root can have made; another one is an error.

    Absent parts are taken literally. Opening the result detects a change meanwhile.
    """
    at, left, links = "", path.strip("/").split("/")[::-1], 0
    while left:
        name = left.pop()
        if name == "..":
            at = at.rpartition("/")[0]
        if name in {"", ".", ".."}:
            continue
        target = _link_target(f"{at}/{name}")
        if target is None:
            at = f"{at}/{name}"
            continue
        links += 1
        if links > _MOST_LINKS or not _is_roots(f"{at}/{name}", at or "/"):
            message = "is a symbolic link that a user can change, and is not followed"
            raise OSError(errno.ELOOP, message, f"{at}/{name}")
        at = "" if target.startswith("/") else at
        left += target.split("/")[::-1]
    return at or "/"


def _link_target(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115 - Path has it from Python 3.9 on
    except OSError:
        return None


def _is_roots(link: str, above: str) -> bool:
    return os.lstat(link).st_uid == 0 and is_private(os.lstat(above))


def move(old: Entry, new: Entry) -> None:
    """Overwrites nothing."""
    try:
        _rename(old, new, _NO_REPLACE)
    except OSError as error:
        if error.errno not in _NOT_KNOWN:
            raise
        if new.look():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new.path) from None
        _rename(old, new, 0)


def exchange(one: Entry, other: Entry) -> None:
    _rename(one, other, _EXCHANGE)


def put_in_place(made: Entry, live: Entry, aside: Entry) -> None:
    """The new one gets the live name, and the one with that name goes aside.

    Killed in between, it leaves both, complete.
    """
    move(made, aside)
    try:
        exchange(aside, live)
    except OSError as error:
        move(aside, made)
        if error.errno not in _NOT_KNOWN:
            raise
        move(live, aside)
        move(made, live)


def _rename(old: Entry, new: Entry, flag: int) -> None:
    c_library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(old.name), os.fsencode(new.name)
    if c_library.renameat2(old.folder.number, names[0], new.folder.number, names[1], flag) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), new.path)


def make_writable(path: str) -> None:
    """In this mount namespace, where its unit made it read-only. Its file system is left alone."""
    with open_any(path) as before:
        found = os.fstatvfs(before.number).f_flag
        if not found & os.ST_RDONLY:
            return
        bind(before, before)
        with open_any(path) as folder:
            if folder.is_same(before):
                _call_mount(
                    None, folder, 0x1020 | _mount_flags(found & ~os.ST_RDONLY)
                )  # MS_REMOUNT


def _mount_flags(found: int) -> int:
    """They have the same numbers, but for relatime."""
    same = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME
    return found & same | (0x200000 if found & os.ST_RELATIME else 0)


def bind(source: Folder, target: Folder, *, with_mounts_below: bool = False) -> None:
    """Shows the one at the place of the other, in this mount namespace."""
    _call_mount(source, target, 0x1000 | (0x4000 if with_mounts_below else 0))  # MS_BIND, MS_REC


def _call_mount(source: Folder | None, target: Folder, flags: int) -> None:
    c_library = ctypes.CDLL(None, use_errno=True)
    name = os.fsencode(source.at) if source else None
    if c_library.mount(name, os.fsencode(target.at), None, flags, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target.path)
