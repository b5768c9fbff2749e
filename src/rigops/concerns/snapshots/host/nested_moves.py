"""Moves the subvolumes inside of one into that which takes its place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.concerns.snapshots.host.renaming import move_to_free_name

if TYPE_CHECKING:
    from collections.abc import Iterable

_BESIDE = ".rigops-aside"


def move_nested(old: str, new: str, nested: Iterable[str]) -> list[str]:
    """What was in their place and has another name now, from the top of `new`.

    Those directly inside come with all that is in them. One that is moved already is left alone.
    """
    moved: list[str] = []
    displaced: list[str] = []
    for inside in sorted(nested):
        if any(inside.startswith(f"{one}/") for one in moved):
            continue
        moved.append(inside)
        if not os.path.lexists(f"{old}/{inside}"):
            continue
        at = new
        for part in inside.split("/")[:-1]:
            at = f"{at}/{part}"
            if not _is_folder(at):
                displaced += _displace(at)
                _make_folder_like(f"{old}{at[len(new) :]}", at)
        target = f"{new}/{inside}"
        displaced += _displace(target)
        move_to_free_name(f"{old}/{inside}", target)
    return [one[len(new) :] for one in displaced]


def _displace(path: str) -> list[str]:
    """An empty folder goes, as a snapshot has one for each subvolume inside."""
    if not os.path.lexists(path):
        return []
    if _is_folder(path) and not os.listdir(path):  # noqa: PTH208
        Path(path).rmdir()
        return []
    number = 1
    while os.path.lexists(f"{path}{_BESIDE}{number}"):
        number += 1
    move_to_free_name(path, f"{path}{_BESIDE}{number}")
    return [f"{path}{_BESIDE}{number}"]


def _make_folder_like(like: str, path: str) -> None:
    Path(path).mkdir()
    shutil.copystat(like, path)
    owner = Path(like).stat()
    os.chown(path, owner.st_uid, owner.st_gid)


def _is_folder(path: str) -> bool:
    """Never through a symbolic link, which would lead out of the subvolume."""
    return os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114
