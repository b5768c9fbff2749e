"""Brings a file or a tree back from the backup of another tool, beside what is there."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from rigops.concerns.borg.host.restore_frame import (
    RestoreSource,
    add_restore_options,
    answer_restore,
    demand_room,
    describe_restore,
    finish_extraction,
    read_restore_paths,
    refuse_to_overwrite,
)
from rigops.concerns.borg.host.saved_states import choose_states, find_among
from rigops.concerns.borg.host.tool_unit import demand_tool_unit
from rigops.concerns.borg.host.unmanaged_listing import open_saved_states
from rigops.concerns.snapshots.host.btrfs import HostError
from rigops.concerns.snapshots.host.one_run import only_run
from rigops.concerns.snapshots.host.renaming import move_to_free_name
from rigops.concerns.snapshots.host.unfinished import clear_unfinished
from rigops.concerns.snapshots.host.workspace import open_folder, read_unfinished, workspace

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rigops.concerns.borg.host.archive_contents import Found
    from rigops.concerns.borg.host.restore_frame import RestorePaths
    from rigops.concerns.borg.host.saved_states import SavedState, SavedStates
    from rigops.concerns.snapshots.host.output import Output
    from rigops.concerns.snapshots.host.workspace import Folder


def add_unmanaged_restore(commands: Any) -> None:  # noqa: ANN401 - argparse does not name its type
    parser = add_restore_options(commands, __doc__ or "")
    parser.set_defaults(carry_out=restore_unmanaged)


def restore_unmanaged(options: argparse.Namespace, output: Output) -> int:
    return answer_restore(options, output, partial(_restore_beside, options, output))


def _restore_beside(options: argparse.Namespace, output: Output) -> dict[str, Any]:
    unit = demand_tool_unit()
    paths = read_restore_paths(options)
    if options.in_place:
        raise HostError(
            f"{paths.path} is not replaced: the backups of {unit.name} are another tool's, and "
            "rigops only puts what is in them beside",
            "leave --in-place out, look at what comes back, then move it yourself",
        )
    if paths.path == "/":
        raise HostError("/ is not restored as a whole here", "choose a PATH in it")
    tool = open_saved_states(unit)
    state, found = _choose(tool, paths, options.at, options.place)
    target = paths.target(state.at)
    source = RestoreSource(state.name, state.at, state.place, unit.tool, found)
    if not options.dry_run:
        with only_run():
            _clear_own_unfinished(output)
            _put_beside(tool, state, found, paths, target)
    return describe_restore(paths.path, source, target)


def _choose(
    tool: SavedStates, paths: RestorePaths, at: str, place: str
) -> tuple[SavedState, Found]:
    states = tool.states()
    for one in choose_states(states, at):
        if place in {"", one.place}:
            found = find_among(tool.items(one, paths.inside), paths.inside)
            if found:
                return one, found
    names = ", ".join(one.name for one in states[-4:]) or "none"
    raise HostError(
        f"{paths.path} is in no backup of that time",
        f"check the spelling and --at; newest backups: {names}",
    )


def _clear_own_unfinished(output: Output) -> None:
    """A restore of snapshots that was cut off needs mounts, and its own program."""
    found = read_unfinished()
    if found and found.moves:
        raise HostError(
            f"an interrupted restore left {found.path}", "run `rigops backup HOST --engine btrfs`"
        )
    clear_unfinished(output)


def _put_beside(
    tool: SavedStates, state: SavedState, found: Found, paths: RestorePaths, target: str
) -> None:
    """Made under another name, and then renamed."""
    refuse_to_overwrite(target)
    with made_folder(os.path.dirname(target)) as above:  # noqa: PTH120
        demand_room(above, found.bytes)
        with workspace(above) as made:
            tool.extract(state, [paths.inside], made.at(""))
            finish_extraction(made, paths, target)
            move_to_free_name(made.at(paths.inside), above.at(os.path.basename(target)))  # noqa: PTH119


@contextmanager
def made_folder(folder: str) -> Iterator[Folder]:
    """What is made of it goes again where nothing comes to be in it."""
    missing: list[str] = []
    above = folder
    while not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)  # noqa: PTH120
    os.makedirs(folder, mode=0o755, exist_ok=True)  # noqa: PTH103
    try:
        with open_folder(folder) as opened:
            yield opened
    except BaseException:
        for one in missing:
            with suppress(OSError):
                os.rmdir(one)  # noqa: PTH106
        raise
