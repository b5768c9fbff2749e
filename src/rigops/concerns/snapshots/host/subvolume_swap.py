"""Puts a writable snapshot in the place of a live subvolume, or where one was on a lost disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rigops.backup.host.btrfs import run_tool, take_snapshot
from rigops.backup.host.errors import HostError
from rigops.backup.host.mounted import (
    mount_subvolume,
    mounted_at,
    mounted_below,
    unmount,
)
from rigops.backup.host.nested_moves import move_nested
from rigops.backup.host.paths import is_inside
from rigops.backup.host.snapshot_names import STORE, SnapshotName, folder_of
from rigops.backup.host.subvolumes import number_at
from rigops.backup.host.workspace import Moves, forget, note, temporary_name
from rigops.backup.utc import stamp, utc_now
from rigops.concerns.snapshots.host.chain import Transfer, choose_parents
from rigops.concerns.snapshots.host.copying import SPARE
from rigops.concerns.snapshots.host.place import LocalPlace
from rigops.concerns.snapshots.host.spots import find_spot
from rigops.concerns.snapshots.host.stores import LOCAL
from rigops.concerns.snapshots.host.transfer import send_snapshot
from rigops.hostside.shared.beneath import move, open_parent, put_in_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.backup.host.documents import Moved
    from rigops.backup.host.output import Output
    from rigops.concerns.snapshots.host.spots import Spot
    from rigops.concerns.snapshots.host.stores import DiskStore, ServerStore

    Store = DiskStore | ServerStore


class Swap(NamedTuple):
    """A swap of two subvolumes; `aside` is where the old one goes, empty where none is."""

    spot: Spot
    local: LocalPlace
    folder: str
    aside: str
    needs_copy: bool


def plan_swap(path: str, store: Store, name: str) -> Swap:
    spot = find_spot(path)
    if not spot.inside:
        raise HostError(
            f"{path} is the top level of its file system, which cannot be replaced",
            "use --to DIR, or mount a subvolume there",
        )
    if is_inside(spot.inside, STORE):
        raise HostError(
            f"{path} shows what an earlier restore put aside ({spot.inside})",
            f"end what uses it, then: umount {path} && mount {path}",
        )
    if store.name == LOCAL and store.uuid != spot.volume.uuid:
        raise HostError(f"{path} is on another file system than its snapshots", "use --to DIR")
    inside = mounted_below(path)
    if inside:
        raise HostError(f"{', '.join(inside)}: mounted inside {path}", f"umount {' '.join(inside)}")
    local = LocalPlace(LOCAL, spot.volume, receives=False)
    folder = folder_of(path)
    aside = ""
    if spot.subvolume is not None:
        aside = str(local.path(folder, str(SnapshotName(utc_now(), "rollback"))))
    else:
        with open_parent(spot.at) as entry:
            if entry.look():
                aside = f"{spot.at}.before-restore-{stamp(utc_now())}"
    has_copy = any(one.is_complete and one.name == name for one in local.copies(folder))
    return Swap(spot, local, folder, aside, needs_copy=not has_copy)


def replace_subvolume(
    swap: Swap, store: Store, name: str, output: Output, before_swap: Callable[[], None]
) -> Moved:
    """`before_swap`: from then on it goes to its end."""
    spot = swap.spot
    if swap.needs_copy:
        _bring_copy(swap, store, name, output)
    with open_parent(spot.at) as live:
        made = live.folder.entry(temporary_name())
        moves = Moves(swap.aside, spot.at, spot.nested) if swap.aside and spot.nested else None
        before_swap()
        note(made.path, moves)
        take_snapshot(str(swap.local.path(swap.folder, name)), made.at, read_only=False)
        if swap.aside:
            swap.local.make(swap.folder)
            with open_parent(swap.aside) as aside:
                put_in_place(made, live, aside)
            for beside in move_nested(swap.aside, spot.at, spot.nested):
                output.notice(f"{spot.path}: a subvolume is in the place of what is now {beside}")
        else:
            move(made, live)
    swap.local.sync()
    forget()
    to_do = _show_in_host(spot) if spot.subvolume is not None else None
    if to_do is None and spot.subvolume is not None:
        run_tool(swap.aside, ["btrfs", "property", "set", "-ts", swap.aside, "ro", "true"])
    return {"aside": swap.aside[len(spot.volume.top) + 1 :] or None, "to_do": to_do}


def _bring_copy(swap: Swap, store: Store, name: str, output: Output) -> None:
    """It stays, so that the next copy to the target needs only what changed since."""
    local, folder = swap.local, swap.folder
    here, there = local.copies(folder), store.copies(folder)
    if any(one.name == name for one in here):
        raise HostError(
            f"{local.path(folder, name)} is writable: it was changed, or is incomplete",
            "rename or remove it",
        )
    parents = choose_parents(name, [*there], [one for one in here if one.is_complete])
    total = None if parents else store.measure(folder, name, "")
    free, _ = local.room()
    if total is not None and total + SPARE > free:
        raise HostError(
            f"the file system of {swap.spot.path} has {free >> 20} MiB free, the restore needs "
            f"{(total + SPARE) >> 20} MiB",
            "remove files or snapshots there",
        )
    send_snapshot(Transfer(name, parents), folder, store.place, local, output)


def _show_in_host(spot: Spot) -> str | None:
    """The commands to run where the machine still shows the old one."""
    mount = mounted_at(spot.path)
    if mount is None or mount.kind != "btrfs" or number_at(spot.path) == number_at(spot.at):
        return None
    again = f"umount {spot.path} && mount {spot.path}"
    why = unmount(mount)
    if "busy" in why:
        return f"{spot.path} is in use and shows the old data until you end what uses it: {again}"
    if why:
        return f"{spot.path} shows the old data ({why}): {again}"
    why = mount_subvolume(mount, spot.inside)
    if why:
        return f"{spot.path} is not mounted now ({why}): mount {spot.path}"
    return None
