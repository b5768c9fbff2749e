"""Remains of rigops on a host where everything should be undone. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from rigops.concerns.host_records import damaged_records
from rigops.errors import RigopsError
from rigops.ownership.owned_lines import shown_path
from rigops.ownership.ownership import Ownership
from rigops.packages.records import HOLDS_RECORD, Holds
from rigops.probe.sections.rigops_state import ARGUMENTS
from rigops.record.journal_shell import JOURNAL
from rigops.record.kernel_arguments import parse_arguments

if TYPE_CHECKING:
    from rigops.probe.sections.rigops_state import RigopsState


def leftovers(state: RigopsState, kept_holds: Collection[str] = ()) -> Iterator[str]:
    """By its records and its files."""
    if not state.are_traces_known:
        yield "whatever the host's answer, which is incomplete, would have named"
    for record in damaged_records(state):
        if record.is_refused and record.path != JOURNAL:
            yield f"whatever {record.path} named, which cannot be read"
    owned = Ownership() if state.owned is None else Ownership.parse(state.owned)
    yield from (f"{shown_path(path)} (changed since)" for path in sorted(owned.files))
    yield from state.unrecorded
    yield from state.strays
    yield from (f"the hold of {name}" for name in holds_of(state) if name not in kept_holds)
    if arguments := _arguments(state.records.get(ARGUMENTS)):
        yield f"kernel arguments {' '.join(arguments)}"


def holds_of(state: RigopsState) -> tuple[str, ...]:
    try:
        return tuple(sorted(Holds.parse(state.records.get(HOLDS_RECORD)).holds))
    except RigopsError:
        return ()  # named as damaged


def _arguments(text: str | None) -> tuple[str, ...]:
    try:
        record = parse_arguments(text) if text is not None else None
    except RigopsError:
        return ()  # named as damaged
    return (*record.written, *record.trying) if record else ()
