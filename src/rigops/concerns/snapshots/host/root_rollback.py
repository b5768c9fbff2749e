"""Puts a writable copy of a snapshot in the place of the root: the next boot runs it.

By its name, since the command line of the kernel names a subvolume: btrfs' default is ignored
there. The present root runs on until the reboot, and stays among the snapshots.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigops.backup.host.btrfs import BtrfsError, delete_subvolume, run_tool, take_snapshot
from rigops.backup.host.errors import HostError, as_host_error
from rigops.backup.host.mounted import parse_mounts
from rigops.backup.host.nested_moves import move_nested
from rigops.backup.host.one_run import go_on_to_the_end, only_run
from rigops.backup.host.snapshot_names import folder_of
from rigops.backup.host.workspace import temporary_name
from rigops.concerns.snapshots.host.chain import NEWEST_THAT_STAY, kind_of
from rigops.concerns.snapshots.host.marks import read_pinned
from rigops.concerns.snapshots.host.root_loader import bring_loaders
from rigops.concerns.snapshots.host.root_note import (
    NOT_BEGUN,
    RUNS,
    WAITS,
    RollbackNote,
    boot_id,
    remove_rollback_note,
    write_rollback_note,
)
from rigops.concerns.snapshots.host.root_plan import find_root, plan_rollback
from rigops.hostside.shared.beneath import exchange, open_parent, put_in_place

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from rigops.backup.host.output import Output
    from rigops.backup.host.subvolumes import Subvolume
    from rigops.concerns.snapshots.host.root_plan import RootPlan, RootState
    from rigops.concerns.snapshots.host.snapshot_documents import FinishedRollback, RollbackRow

_WOULD = {
    RUNS: "the last rollback is finished first",
    WAITS: "the last rollback, whose reboot is due, is undone first",
    NOT_BEGUN: "what a rollback that was cut off left is removed first",
}


def add_rollback_root(commands: Any) -> None:
    parser = commands.add_parser("rollback-root", help="make the root what a snapshot has")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--at", default="", help="a time in UTC, or the name of a snapshot")
    what.add_argument("--finish", action="store_true", help="after the reboot")
    parser.add_argument("--dry-run", action="store_true")
    parser.set_defaults(carry_out=roll_back_root)


def roll_back_root(options: argparse.Namespace, output: Output) -> int:
    try:
        if options.dry_run:
            output.result({"rollback": _plan_alone(options.at)})
        elif options.finish:
            with only_run():
                output.result({"rolled_back": _finish_rollback(output)})
        else:
            with only_run():
                output.result({"rollback": _roll_back(options.at, output)})
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise as_host_error("the root", error) from error
    return 0


def _plan_alone(at: str) -> RollbackRow:
    state = find_root()
    plan = plan_rollback(state, at)
    document = plan.document(state.volume.uuid)
    document["notices"] += [_WOULD[state.stage]] if state.stage else []
    return document


def _roll_back(at: str, output: Output) -> RollbackRow:
    state = find_root()
    plan = plan_rollback(state, at)
    settled = []
    if state.note:
        settled = _settle(state, state.note, output)
        state = find_root()
        plan = plan_rollback(state, at)
    displaced = _swap_roots(state, plan)
    output.notice(f"/: {plan.snapshot} is the root of the next boot; {plan.aside} is this one")
    document = plan.document(state.volume.uuid)
    document["notices"] += [*settled, *_name_displaced(displaced)]
    return document


def _swap_roots(state: RootState, plan: RootPlan) -> list[str]:
    """A power cut leaves one of the two roots: btrfs writes all of these steps in their order."""
    volume, at = state.volume, state.at
    note = RollbackNote(
        snapshot=str(plan.snapshot),
        root=plan.root,
        aside=plan.aside,
        temporary=temporary_name(),
        boot=boot_id(),
        nested=plan.nested,
    )
    write_rollback_note(volume, note)
    source = str(state.place.path(folder_of("/"), str(plan.snapshot)))
    try:
        take_snapshot(source, at(note.temporary), read_only=False)
        _forget_lock(at(note.temporary))
        made = next(one for one in volume.subvolumes() if one.path == note.temporary)
        note = note._replace(made=made.uuid)
        write_rollback_note(volume, note)
        bring_loaders("", at(note.temporary), plan.loaders)
        _sync(volume.top)
        go_on_to_the_end()
        _uncover(plan.nested)
        with ExitStack() as opened:
            paths = (at(note.temporary), at(note.root), at(note.aside))
            put_in_place(*(opened.enter_context(open_parent(one)) for one in paths))
    except BaseException:
        _remove_new_root(find_root(), note)
        raise
    # No sync here: most power cuts then leave all of the moves, or none.
    try:
        displaced = move_nested(state.at(note.aside), state.at(note.root), plan.nested)
    except OSError as error:
        _undo(find_root(), note)
        raise as_host_error("a subvolume inside the root could not be moved", error) from error
    _sync(volume.top)
    return displaced


def _forget_lock(root: str) -> None:
    """The apply that took the snapshot held its lock then; nobody is to wonder how that ended."""
    with suppress(OSError):
        Path(root, "var/lib/rigops/lock.json").unlink()


def _settle(state: RootState, note: RollbackNote, output: Output) -> list[str]:
    """Remains of an earlier rollback; nothing is lost by it."""
    go_on_to_the_end()
    if state.stage == RUNS:
        _finish_running(state, note, output)
        return ["the last rollback was finished first"]
    if state.stage == WAITS:
        return _undo(state, note)
    _remove_new_root(state, note)
    return ["what a rollback that was cut off left was removed first"]


def _undo(state: RootState, note: RollbackNote) -> list[str]:
    """The root that runs gets its name back."""
    with open_parent(state.at(state.running.path)) as old, open_parent(state.at(note.root)) as new:
        exchange(old, new)
    return [
        "the last rollback, whose reboot was due, was undone first",
        *_remove_new_root(find_root(), note),
    ]


def _remove_new_root(state: RootState, note: RollbackNote) -> list[str]:
    """Of a rollback that is not in force, wherever that root is; its subvolumes go back."""
    new = next(
        (one for one in state.every if note.made == one.uuid or note.temporary == one.path), None
    )
    notices = []
    if new is not None and new.number != state.running.number:
        inside = [one[len(new.path) + 1 :] for one in _directly_inside(state, new)]
        _uncover(inside)
        displaced = move_nested(state.at(new.path), state.at(state.running.path), inside)
        notices += _name_displaced(displaced)
        if note.is_of_this_boot or new.path == note.temporary:
            delete_subvolume(state.at(new.path))
        else:  # it may have run, and have something that is nowhere else
            _set_read_only(state.at(new.path))
            notices.append(f"its root stays as {new.path}")
    remove_rollback_note(state.volume)
    _sync(state.volume.top)
    return notices


def finish_noted_rollback(output: Output) -> None:
    """Remains of an abandoned one, as on the machine that it was started on."""
    with suppress(HostError), only_run():
        _finish_rollback(output)


def _finish_rollback(output: Output) -> FinishedRollback | None:
    state = find_root()
    note = state.note
    if note is None:
        return None
    go_on_to_the_end()
    if state.stage == RUNS:
        _finish_running(state, note, output)
        _prune_asides(state, output)
    elif state.stage == WAITS:
        _move_rest(state, note, state.running.path, note.root, output)
    else:
        _remove_new_root(state, note)
        output.notice("a rollback was cut off before it took effect; the old root stays")
    return {
        "snapshot": note.snapshot,
        "aside": note.aside,
        "root": note.root,
        "is_running": state.stage == RUNS,
    }


def _finish_running(state: RootState, note: RollbackNote, output: Output) -> None:
    aside = next((one for one in state.every if one.path == note.aside), None)
    if aside is not None:
        _move_rest(state, note, aside.path, state.running.path, output)
        _set_read_only(state.at(aside.path))
    remove_rollback_note(state.volume)
    _sync(state.volume.top)


def _move_rest(state: RootState, note: RollbackNote, old: str, new: str, output: Output) -> None:
    """Of the moves that a power cut left out."""
    there = {one.path for one in state.every}
    rest = [one for one in note.nested if f"{old}/{one}" in there]
    _uncover(rest)
    for notice in _name_displaced(move_nested(state.at(old), state.at(new), rest)):
        output.notice(notice)
    _sync(state.volume.top)


def _prune_asides(state: RootState, output: Output) -> None:
    folder = folder_of("/")
    place = state.place
    pinned = read_pinned(place.path(folder))
    names = [one.name for one in place.copies(folder) if kind_of(one.name) == "rollback"]
    for name in sorted(names)[: -NEWEST_THAT_STAY["rollback"]]:
        path = str(place.path(folder, name).relative_to(state.volume.top))
        if name in pinned or path == state.running.path:
            continue
        if any(one.path.startswith(f"{path}/") for one in state.every):
            output.notice(f"/: {name} stays: it has subvolumes inside")
            continue
        try:
            place.delete(folder, name)
            output.notice(f"/: removed {name}")
        except BtrfsError as error:
            output.notice(f"{error.message}: {name} stays")


def _directly_inside(state: RootState, of: Subvolume) -> list[str]:
    return [one.path for one in state.every if one.above == of.number and not one.is_read_only]


def _uncover(nested: Iterable[str]) -> None:
    """A mount on one of them would hold its name; it goes in this namespace alone."""
    points = {f"/{one}" for one in nested}
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    for mount in parse_mounts(text):
        if mount.point in points:
            run_tool(mount.point, ["umount", "-l", mount.point])


def _set_read_only(path: str) -> None:
    run_tool(path, ["btrfs", "property", "set", "-ts", path, "ro", "true"])


def _name_displaced(paths: Iterable[str]) -> list[str]:
    return [f"{one}: this was in the place of a subvolume that was moved" for one in paths]


def _sync(top: str) -> None:
    run_tool(top, ["sync", "-f", top])
