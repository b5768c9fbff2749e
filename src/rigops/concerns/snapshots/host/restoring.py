"""Brings a file, a tree or a whole subvolume back from a snapshot or from a copy of it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rigops.backup.host.btrfs import FLUSH_S, run_tool, take_snapshot
from rigops.backup.host.errors import HostError
from rigops.backup.host.noted_places import demand_mounted, note_restored
from rigops.backup.host.one_run import go_on_to_the_end, only_run
from rigops.backup.host.paths import is_free, is_inside, path_beside
from rigops.backup.host.restore_frame import (
    add_restore_options,
    answer_restore,
    read_restore_paths,
)
from rigops.backup.host.snapshot_names import folder_of, parse_snapshot_name, path_of
from rigops.backup.host.snapshot_settings import read_snapshot_settings
from rigops.backup.host.subvolumes import file_system_uuid
from rigops.backup.host.unfinished import clear_unfinished
from rigops.backup.host.workspace import open_or_make, workspace
from rigops.backup.utc import stamp, utc_now, utc_text
from rigops.concerns.snapshots.host.choosing import (
    nearest_to,
    order_candidates,
    parse_when,
    subvolume_with,
)
from rigops.concerns.snapshots.host.copying import SPARE
from rigops.concerns.snapshots.host.spots import find_spot
from rigops.concerns.snapshots.host.stores import (
    LOCAL,
    DiskStore,
    MissingStore,
    ServerStore,
    find_local_stores,
    find_target,
)
from rigops.concerns.snapshots.host.subvolume_swap import plan_swap, replace_subvolume
from rigops.concerns.snapshots.host.transfer import StreamMeter
from rigops.hostside.shared.beneath import (
    move,
    open_beneath,
    open_folder,
    open_typed,
    put_in_place,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rigops.backup.host.documents import Moved, Restored

    Store = DiskStore | ServerStore

    from rigops.backup.host.output import Output
    from rigops.concerns.snapshots.host.choosing import When
    from rigops.hostside.shared.beneath import Folder


class RestoreRequest(NamedTuple):
    """`inside`: below the subvolume, empty for all of it. `replaces`: also what is there."""

    path: str
    subvolume: str
    inside: str
    when: When
    to: str
    in_place: bool
    replaces: bool
    dry_run: bool


class Choice(NamedTuple):
    """A snapshot, and the place that it is read from."""

    name: str
    store: Store


def add_restore(commands: Any) -> None:
    parser = add_restore_options(commands, __doc__ or "", "a snapshot", "take it from there only")
    parser.set_defaults(carry_out=restore)


def restore(options: argparse.Namespace, output: Output) -> int:
    return answer_restore(options, output, partial(_restore, options, output))


def _restore(options: argparse.Namespace, output: Output) -> Restored:
    if options.dry_run:
        return _carry_out(options, output)
    with only_run():
        clear_unfinished(output)
        return _carry_out(options, output)


def _carry_out(options: argparse.Namespace, output: Output) -> Restored:
    settings = read_snapshot_settings()
    target = find_target(settings)
    stores = [*find_local_stores(), *([target] if target else [])]
    request = _read_request(options, settings.subvolumes if settings else (), stores)
    if not (request.to or request.in_place) and _is_free(request):
        request = request._replace(in_place=True)
    if request.in_place:
        demand_mounted(request.path)
    choice = _choose(request, stores, options.place)
    done = _describe(request, choice)
    is_swap = request.in_place and not request.inside
    swap = plan_swap(request.path, choice.store, choice.name) if is_swap else None
    if swap and swap.aside and not request.replaces:
        raise HostError(f"{request.path} is there again", "run it again")
    if swap:
        done["aside"] = swap.aside[len(swap.spot.volume.top) + 1 :] or None
    if request.dry_run:
        return done
    if swap:
        found = replace_subvolume(swap, choice.store, choice.name, output, go_on_to_the_end)
    else:
        found = _restore_tree(request, choice, output)
    if request.in_place:
        note_restored(request.path)
    return {**done, **found}


def _read_request(
    options: argparse.Namespace, declared: Sequence[str], stores: Sequence[Store | MissingStore]
) -> RestoreRequest:
    path, to = read_restore_paths(options)
    stored = {path_of(folder) for store in stores for folder in store.folders()}
    known = sorted(stored.union(declared))
    subvolume = subvolume_with(path, known)
    if subvolume is None:
        names = ", ".join(known) or "none"
        raise HostError(
            f"{path} is in no subvolume that has snapshots ({names})",
            "restore a path below one of these" if known else "declare snapshots, and apply",
        )
    inside = path[len(subvolume) :].strip("/")
    if options.in_place and path == "/":
        raise HostError(
            "/ is in use and cannot be replaced here", "run `rigops rollback HOST --what root`"
        )
    return RestoreRequest(
        path,
        subvolume,
        inside,
        parse_when(options.at),
        to,
        options.in_place,
        options.in_place,
        options.dry_run,
    )


def _is_free(request: RestoreRequest) -> bool:
    """What is gone can go back to where it was."""
    if request.inside:
        return is_free(request.path)
    try:
        return is_free(request.path) and find_spot(request.path).subvolume is None
    except HostError:  # on no btrfs, where a subvolume comes back as a folder
        return False


def _choose(request: RestoreRequest, stores: Sequence[Store | MissingStore], place: str) -> Choice:
    asked = [store for store in stores if place in {"", store.name}]
    names = ", ".join(dict.fromkeys(store.name for store in stores)) or "none"
    if not asked:
        raise HostError(
            f"no snapshots at {place or 'any place'} (there are: {names})",
            "check /etc/rigops/snapshots.json, and that the disks are mounted",
        )
    present = [store for store in asked if not isinstance(store, MissingStore)]
    absent = [store for store in asked if isinstance(store, MissingStore)]
    if absent and not present:
        raise HostError(absent[0].error, absent[0].fix)
    folder = folder_of(request.subvolume)
    found = [Choice(one.name, store) for store in present for one in store.copies(folder)]
    for name in order_candidates((one.name for one in found), request.when, utc_now()):
        for choice in found:
            if choice.name == name and choice.store.kind_of(folder, name, request.inside):
                return choice
    raise _nothing_found(request, found, absent)


def _nothing_found(
    request: RestoreRequest, found: Sequence[Choice], absent: Sequence[MissingStore]
) -> HostError:
    folder = folder_of(request.subvolume)
    having = [one.name for one in found if _has(one, folder, request.inside)]
    without = "".join(f"; {store.name} is {store.state}" for store in absent)
    if having:
        nearest = ", ".join(nearest_to(having, request.when))
        return HostError(
            f"{request.path} is in no snapshot of that time{without}",
            f"choose with --at one of: {nearest}",
        )
    for other in _nested_of(request):
        if is_inside(request.inside, other):
            return HostError(
                f"{request.path} is in the nested subvolume {other}, which has no snapshots",
                "declare it in subvolumes",
            )
    every = ", ".join(nearest_to((one.name for one in found), request.when)) or "none"
    return HostError(
        f"{request.path} is in no snapshot{without}",
        f"check the spelling; nearest snapshots of {request.subvolume}: {every}",
    )


def _has(choice: Choice, folder: str, inside: str) -> bool:
    return bool(choice.store.kind_of(folder, choice.name, inside))


def _nested_of(request: RestoreRequest) -> tuple[str, ...]:
    try:
        return find_spot(request.subvolume).nested
    except HostError:
        return ()


def _describe(request: RestoreRequest, choice: Choice) -> Restored:
    folder, name = folder_of(request.subvolume), choice.name
    taken = parse_snapshot_name(name)
    kind = choice.store.kind_of(folder, name, request.inside) if request.inside else "subvolume"
    return {
        "path": request.path,
        "kind": kind,
        "snapshot": name,
        "at": utc_text(taken.at) if taken else None,
        "place": choice.store.name,
        "restored_to": _goes_to(request, choice),
        "bytes": choice.store.measure(folder, name, request.inside),
        "aside": None,
        "to_do": None,
    }


def _goes_to(request: RestoreRequest, choice: Choice) -> str:
    if request.in_place:
        return request.path
    taken = parse_snapshot_name(choice.name)
    return path_beside(request.path, request.to, taken.at if taken else utc_now())


def _restore_tree(request: RestoreRequest, choice: Choice, output: Output) -> Moved:
    store, folder, name = choice.store, folder_of(request.subvolume), choice.name
    target = _goes_to(request, choice)
    parent, last = os.path.split(target)
    with ExitStack() as opened:
        above = _open_parent(request, choice, parent, opened)
        live = above.entry(last)
        if request.to and live.look():
            raise HostError(f"{target} exists already and is not overwritten", "choose another DIR")
        made = opened.enter_context(workspace(above)).entry(last)
        is_whole = not request.inside and store.name == LOCAL and _is_on(above, store)
        if is_whole and isinstance(store, DiskStore):  # a snapshot of the snapshot is enough
            take_snapshot(store.root(folder, name), made.at, read_only=False)
            go_on_to_the_end()
            move(made, live)
            return {"restored_to": target}
        total = store.measure(folder, name, request.inside)
        _check_room(above, total, is_shared=_is_on(above, store))
        meter = StreamMeter(output, f"restoring {request.path}", total)
        store.copy(folder, name, request.inside, made, meter)
        run_tool(target, ["sync", "-f", made.folder.at], FLUSH_S)
        go_on_to_the_end()
        if not request.replaces or live.look() is None:
            move(made, live)
            return {"restored_to": target}
        aside = above.entry(f"{last}.before-restore-{stamp(utc_now())}")
        put_in_place(made, live, aside)
    return {"restored_to": target, "aside": f"{parent.rstrip('/')}/{aside.name}"}


def _open_parent(request: RestoreRequest, choice: Choice, parent: str, opened: ExitStack) -> Folder:
    """No link is followed on the way, but in a folder that the person named for it."""
    if request.to:
        os.makedirs(parent, mode=0o755, exist_ok=True)
        return opened.enter_context(open_typed(parent))
    if not request.in_place:
        return opened.enter_context(open_folder(parent))
    try:
        start = opened.enter_context(open_folder(request.subvolume))
    except FileNotFoundError:
        raise HostError(
            f"{request.subvolume} does not exist now",
            f"restore all of it first: rigops restore HOST {request.subvolume} --in-place",
        ) from None
    below = parent[len(request.subvolume) :].strip("/")
    if not isinstance(choice.store, DiskStore):
        return opened.enter_context(open_beneath(start, below))
    root = choice.store.root(folder_of(request.subvolume), choice.name)
    like = opened.enter_context(open_folder(root))
    return opened.enter_context(open_or_make(start, below, like))


def _is_on(folder: Folder, store: Store) -> bool:
    """Of the same file system, where a copy shares the data."""
    return bool(store.uuid) and file_system_uuid(folder) == store.uuid


def _check_room(folder: Folder, needed: int | None, *, is_shared: bool) -> None:
    found = os.statvfs(folder.number)
    free = found.f_bavail * found.f_frsize
    if needed is not None and not is_shared and needed + SPARE > free:
        raise HostError(
            f"{folder.path} has {free >> 20} MiB free, the restore needs {needed >> 20} MiB",
            "remove files or snapshots there, or use --to DIR on another disk",
        )
