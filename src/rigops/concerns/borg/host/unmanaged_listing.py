"""What the tool of an unmanaged backup has saved, in the form of snapshots. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rigops.concerns.borg.host.tool_borgmatic import Borgmatic
from rigops.concerns.borg.host.tool_restic import Restic
from rigops.concerns.borg.host.tool_unit import (
    BORGMATIC,
    OnlyAgeKnownError,
    demand_tool_unit,
    watched_unit,
)
from rigops.concerns.snapshots.host.btrfs import HostError
from rigops.concerns.snapshots.host.names import UTC_TIME

if TYPE_CHECKING:
    import argparse

    from rigops.concerns.borg.host.saved_states import SavedState, SavedStates
    from rigops.concerns.borg.host.tool_unit import ToolUnit
    from rigops.concerns.snapshots.host.output import Output


def open_saved_states(unit: ToolUnit) -> SavedStates:
    return Borgmatic(unit) if unit.tool == BORGMATIC else Restic(unit)


def add_unmanaged_list(commands: Any) -> None:  # noqa: ANN401 - argparse does not name its type
    parser = commands.add_parser("list", help=__doc__)
    parser.set_defaults(carry_out=list_unmanaged)


def add_unmanaged_backup(commands: Any) -> None:  # noqa: ANN401 - argparse does not name its type
    parser = commands.add_parser("backup", help="refused: the unit does that")
    parser.set_defaults(carry_out=refuse_backup)


def list_unmanaged(_options: argparse.Namespace, output: Output) -> int:
    """A tool that cannot be asked is named, which is no failure."""
    try:
        unit = demand_tool_unit()
    except OnlyAgeKnownError as error:
        where = f"{watched_unit()}: only the age is known; {error.fix}"
        foreign = [{"tool": error.tool, "where": where}]
        output.result({"subvolumes": [], "targets": [], "foreign": foreign})
        return 0
    tool = open_saved_states(unit)
    states = tool.states()
    output.result(describe_states(unit.name, unit.tool, tool.kind, states))
    for one in states if not output.as_json else ():
        output.notice(f"{one.at.strftime(UTC_TIME)}  {one.name}  {one.place}")
    return 0


def describe_states(unit: str, tool: str, kind: str, states: list[SavedState]) -> dict[str, Any]:
    """By path, where the tool has it for each; by the unit else. Pure."""
    paths = sorted({path for one in states for path in one.paths})
    places = sorted({one.place for one in states})
    return {
        "subvolumes": [
            {
                "path": path or unit,
                "nested": [],
                "error": None,
                "snapshots": [
                    _describe_state(one, tool, kind)
                    for one in states
                    if not path or path in one.paths
                ],
            }
            for path in paths or [""]
        ],
        "targets": [
            {
                "name": place,
                "state": "present",
                "newest_at": max(one.at for one in states if one.place == place).strftime(UTC_TIME),
                "free_bytes": None,
                "size_bytes": None,
                "error": None,
            }
            for place in places
        ],
        "foreign": [],
        "engine": tool,
        "unit": unit,
    }


def _describe_state(state: SavedState, tool: str, kind: str) -> dict[str, Any]:
    return {
        "name": state.name,
        "at": state.at.strftime(UTC_TIME),
        "kind": kind,
        "engine": tool,
        "places": [{"place": state.place, "is_complete": True}],
        "bytes": None,
        "reasons": [],
        "is_pruned_next": False,
    }


def refuse_backup(_options: argparse.Namespace, _output: Output) -> int:
    name = watched_unit()
    raise HostError(f"the unit {name} does that", f"systemctl start {service_of(name)}")


def service_of(unit: str) -> str:
    """Of a timer, what it starts."""
    return f"{unit.rpartition('.')[0]}.service"
