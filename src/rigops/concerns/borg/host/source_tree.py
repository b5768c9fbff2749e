"""The file tree that borg reads: the machine's, with snapshots in it, for this process alone."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.btrfs import run_tool
from rigops.backup.host.errors import HostError
from rigops.backup.host.volumes import RUN
from rigops.hostside.shared.beneath import bind, open_any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

SOURCE_TREE = f"{RUN}/borg_tree"
# Where programs expect the running machine.
MACHINE_FOLDERS = ("/proc", "/sys", "/dev", "/run")
# Of programs and of root, where they are on another file system than what is above.
PROGRAM_FOLDERS = ("/usr", "/usr/local", "/opt", "/etc", "/root")


class TreeMount(NamedTuple):
    """`source`: of the machine. `target`: in the tree. `is_whole`: with all mounts below it.

    Else it is a snapshot, in the place of its original.
    """

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

    Paths that a snapshot hides come back where they are needed: `declared` that are on another file
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
def inside_tree(mounts: Sequence[TreeMount]) -> Iterator[dict[str, HostError]]:
    """This process and its children have the tree as their root meanwhile.

    Given: the paths that are not what they were, since a user swaps folders just now.
    """
    os.makedirs(SOURCE_TREE, mode=0o700, exist_ok=True)
    outside = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    mounted = 0
    refused: dict[str, HostError] = {}
    try:
        for one in mounts:
            error = _mount(one)
            if error and one.is_whole:
                raise error
            if error:
                refused[one.target] = error
            mounted += not error
        os.chroot(SOURCE_TREE)
        os.chdir("/")
        yield refused
    finally:
        os.fchdir(outside)
        os.chroot(".")
        os.chdir("/")
        os.close(outside)
        if mounted:
            run_tool(SOURCE_TREE, ["umount", "--lazy", SOURCE_TREE])  # and all that is below


def _mount(one: TreeMount) -> HostError | None:
    """Why not."""
    again = "run it again"
    try:
        with ExitStack() as opened:
            source = opened.enter_context(open_any(one.source))
            target = opened.enter_context(open_any(f"{SOURCE_TREE}{one.target}".rstrip("/")))
            if not one.is_whole and one.target != "/":
                original = opened.enter_context(open_any(one.target))
                is_there = target.is_same(original) or target.is_same(source)
                if not (is_there and original.is_copy(source)):
                    return HostError(f"{one.target} was moved just now; not backed up", again)
            bind(source, target, with_mounts_below=one.is_whole)
    except OSError as error:
        what = f"{one.target}: {error.filename} {error.strerror}"
        return HostError(f"{what}; not backed up", again)
    return None


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _first_of_another_device(folder: str, path: str, device_of: Callable[[str], int]) -> str | None:
    """On the way from the folder down to the path."""
    here, device = folder, device_of(folder)
    for name in path[len(folder) :].split("/"):
        here = os.path.join(here, name) if name else here
        if device_of(here) != device:
            return here
    return None
