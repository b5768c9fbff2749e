"""The file tree that borg reads: the machine's, with snapshots in it, for this process alone."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from rigops.concerns.snapshots.host.btrfs import run_tool
from rigops.concerns.snapshots.host.volumes import RUN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

SOURCE_TREE = f"{RUN}/borg_tree"
# Where programs expect the running machine.
MACHINE_FOLDERS = ("/proc", "/sys", "/dev", "/run")
# Of programs and of root, where they are on another file system than what is above.
PROGRAM_FOLDERS = ("/usr", "/usr/local", "/opt", "/etc", "/root")


class TreeMount(NamedTuple):
    """`source`: of the machine. `target`: in the tree. `is_whole`: with all mounts below it."""

    source: str
    target: str
    is_whole: bool


def plan_tree(
    snapshots: Mapping[str, str],
    declared: Collection[str],
    writable: Collection[str],
    device_of: Callable[[str], int],
) -> list[TreeMount]:
    """In order. `snapshots`: what is read at each path. No path leads through a link.

    What a snapshot hides comes back, where somebody needs it: `declared` that are on another file
    system, and the folders that are `writable`. Nothing else does: what systemd mounts read-only
    for the unit is of the same file system, and belongs into the archive. Pure but for `device_of`.
    """
    found = [] if "/" in snapshots else [TreeMount("/", "/", is_whole=True)]
    for path in sorted(snapshots, key=len):
        found.append(TreeMount(snapshots[path], path, is_whole=False))
        back: dict[str, None] = {}
        for one in (*declared, *writable):
            if _is_within(one, path):
                edge = _first_of_another_device(path, one, device_of)
                back.update(dict.fromkeys([edge or one] if edge or one in writable else []))
        found += [TreeMount(one, one, is_whole=True) for one in sorted(back, key=len)]
    return found


@contextmanager
def inside_tree(mounts: Sequence[TreeMount]) -> Iterator[None]:
    """This process and its children have the tree as their root meanwhile."""
    os.makedirs(SOURCE_TREE, mode=0o700, exist_ok=True)  # noqa: PTH103
    outside = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    mounted = 0
    try:
        for one in mounts:
            option = "--rbind" if one.is_whole else "--bind"
            target = f"{SOURCE_TREE}{one.target}".rstrip("/")
            run_tool(one.target, ["mount", option, one.source, target])
            mounted += 1
        os.chroot(SOURCE_TREE)
        os.chdir("/")
        yield
    finally:
        os.fchdir(outside)
        os.chroot(".")
        os.chdir("/")
        os.close(outside)
        if mounted:
            run_tool(SOURCE_TREE, ["umount", "--lazy", SOURCE_TREE])  # and all that is below


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _first_of_another_device(folder: str, path: str, device_of: Callable[[str], int]) -> str | None:
    """On the way from the folder down to the path."""
    here, device = folder, device_of(folder)
    for name in path[len(folder) :].split("/"):
        here = os.path.join(here, name) if name else here  # noqa: PTH118
        if device_of(here) != device:
            return here
    return None
