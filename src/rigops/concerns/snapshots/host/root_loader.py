"""GRUB's modules in the root, which have to be those of the GRUB that the machine starts with."""

from __future__ import annotations

import filecmp
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.backup.host.btrfs import run_tool

if TYPE_CHECKING:
    from collections.abc import Iterable

_GRUB_FOLDER = "boot/grub"
_CORES = ("core.img", "core.efi", "grub.efi")


def find_other_loaders(present: str, snapshot: str) -> list[str]:
    """By platform, as i386-pc: grub-install was run since the snapshot."""
    return [
        platform
        for platform in sorted(_folders_in(f"{present}/{_GRUB_FOLDER}"))
        if any(_is_other(present, snapshot, f"{_GRUB_FOLDER}/{platform}/{one}") for one in _CORES)
    ]


def bring_loaders(present: str, new: str, platforms: Iterable[str]) -> None:
    for platform in platforms:
        source, target = (f"{one}/{_GRUB_FOLDER}/{platform}" for one in (present, new))
        shutil.rmtree(target, ignore_errors=True)
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        run_tool(target, ["cp", "-a", "-T", "--reflink=auto", "--", source, target])


def _is_other(present: str, snapshot: str, core: str) -> bool:
    here, there = f"{present}/{core}", f"{snapshot}/{core}"
    if not Path(here).is_file():
        return False
    return not Path(there).is_file() or not filecmp.cmp(here, there, shallow=False)


def _folders_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []
