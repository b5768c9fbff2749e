"""A disk with file systems on it, filled from a tree."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

from tests.lab import namespace
from tests.lab.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.vm.layouts import FileSystem, Layout


def make(disk: Path, layout: Layout, trees: tuple[Path, ...]) -> None:
    """Each tree is laid over the one before."""
    with disk.open("wb") as file:
        file.truncate(layout.size)
    _run(["sfdisk", "--quiet", str(disk)], given=layout.table)
    _run(namespace.enter(_steps(disk, layout, trees)))


def _steps(disk: Path, layout: Layout, trees: tuple[Path, ...]) -> list[str]:
    """In shell, for a mount namespace: an interrupted build leaves no mount and no loop device."""
    top = "/mnt"
    steps = ["devices=", "trap 'umount -R /mnt; losetup --detach $devices' EXIT"]
    steps += [_made(disk, layout.root, "root"), f'mount "$root" {top}']
    for name in filter(None, (layout.subvolume, layout.home)):
        steps.append(f"btrfs -q subvolume create {top}/{name}")
    steps += [f"umount {top}", f'mount -o subvol={layout.subvolume} "$root" {top}']
    if layout.home:
        steps += [f"mkdir {top}/home", f'mount -o subvol={layout.home} "$root" {top}/home']
    for number, one in enumerate(layout.beside):
        steps += [_made(disk, one, f"part{number}"), f"mkdir -p {top}{one.where}"]
        if one.kind != "vfat":  # it starts empty, and not every kernel that builds knows it
            steps.append(f'mount "$part{number}" {top}{one.where}')
    steps += [f"cp -a {shlex.quote(str(tree))}/. {top}/" for tree in trees]
    steps.append(f"printf %s {shlex.quote(layout.fstab)} > {top}/etc/fstab")
    return steps


def _made(disk: Path, one: FileSystem, name: str) -> str:
    loop = ["losetup", "--find", "--show", "--offset", str(one.start), "--sizelimit", str(one.size)]
    make = {
        "btrfs": ["mkfs.btrfs", "--quiet", "--uuid", one.uuid],
        "ext4": ["mkfs.ext4", "-q", "-U", one.uuid],
        "vfat": ["mkfs.vfat", "-i", one.uuid.replace("-", "")],
    }[one.kind]
    device = f"{name}=$({shlex.join([*loop, str(disk)])})"
    return f'{device}\ndevices="$devices ${name}"\n{shlex.join(make)} "${name}" >&2'


def _run(command: list[str], given: str = "") -> None:
    done = subprocess.run(command, check=False, input=given, capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError(f"the disk could not be made:\n{done.stderr[-3000:]}")
