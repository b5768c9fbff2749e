"""Moves the subvolumes inside of one into that which takes its place."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING

from rigops.hostside.shared.beneath import move, open_beneath, open_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.hostside.shared.beneath import Entry, Folder

_BESIDE = ".rigops-aside"


def move_nested(old: str, new: str, nested: Iterable[str]) -> list[str]:
    """Move them; return the displaced ones by their new names, from the top of `new`.

    Those directly inside come with all that is in them. One that is moved already is left alone.
    """
    with open_folder(old) as before, open_folder(new) as after:
        return _move_all(before, after, nested)


def _move_all(old: Folder, new: Folder, nested: Iterable[str]) -> list[str]:
    moved: list[str] = []
    displaced: list[str] = []
    for inside in sorted(nested):
        if any(inside.startswith(f"{one}/") for one in moved):
            continue
        moved.append(inside)
        *above, name = inside.split("/")
        with ExitStack() as opened:
            try:
                source = opened.enter_context(open_beneath(old, "/".join(above)))
            except (FileNotFoundError, NotADirectoryError):
                continue
            if source.entry(name).look() is None:
                continue
            there, like = new, old
            for part in above:
                like = opened.enter_context(open_beneath(like, part))
                if not there.entry(part).is_folder:
                    displaced += _displace(there.entry(part))
                    make_like(like, there.entry(part))
                there = opened.enter_context(open_beneath(there, part))
            displaced += _displace(there.entry(name))
            move(source.entry(name), there.entry(name))
    return [one[len(new.path) :] for one in displaced]


def make_like(like: Folder, new: Entry) -> None:
    """A folder with the owner, the mode and the times of that one."""
    os.mkdir(new.name, 0o700, dir_fd=new.folder.number)
    with open_beneath(new.folder, new.name) as made:
        owner = os.fstat(like.number)
        os.chown(made.number, owner.st_uid, owner.st_gid)
        shutil.copystat(like.at, made.at)


def _displace(entry: Entry) -> list[str]:
    """An empty folder goes, as a snapshot has one for each subvolume inside."""
    if entry.look() is None:
        return []
    if entry.is_folder:
        with open_beneath(entry.folder, entry.name) as folder:
            is_empty = not folder.names()
        if is_empty:
            os.rmdir(entry.name, dir_fd=entry.folder.number)
            return []
    number = 1
    while (beside := entry.folder.entry(f"{entry.name}{_BESIDE}{number}")).look():
        number += 1
    move(entry, beside)
    return [beside.path]
