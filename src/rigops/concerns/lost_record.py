"""An ownership record that is lost, damaged or incomplete, and how it is rebuilt. Pure.

Whole entries of a damaged record count as they are. Any other file counts by what it says of
itself, which is that rigops made it, with the content that it has now. What was there before is
found among the copies, whose names are made of path and content.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Literal

from rigops import json_fields
from rigops.concerns import registry
from rigops.concerns.nvidia_driver import record as driver
from rigops.dataclass import dataclass
from rigops.errors import RigopsError
from rigops.ownership.ownership import OwnedFile, Ownership, Previous, digest, previous_of
from rigops.ownership.ownership import owned_file as entry_of
from rigops.probe.sections.rigops_state import RECORD, STATE, Present
from rigops.probe.sections.rigops_traces import FOREIGN_FILES, companion

if TYPE_CHECKING:
    from rigops.probe.sections.rigops_state import RigopsState
    from rigops.probe.sections.rigops_traces import Trace

Loss = Literal["lost", "damaged", "incomplete"]

_COMPANION_MODE: Final = 0o644
_ENTRY_BEGINS: Final = "    {"
_ENTRY_ENDS: Final = "    }"


@dataclass(frozen=True)
class LostRecord:
    """`left`: files where only rigops writes that nothing says to be its own."""

    loss: Loss
    rebuilt: Ownership
    left: tuple[str, ...]
    is_to_rebuild: bool


def lost_record(state: RigopsState) -> LostRecord | None:
    """None: it is complete, or of a newer rigops, or there was never any."""
    loss = _loss(state)
    if loss is None:
        return None
    files = _entries(state)
    traced = [
        owned for path, trace in state.unrecorded.items() if (owned := _owned(path, trace, state))
    ]
    rebuilt = Ownership({**{one.path: one for one in traced}, **files})
    return LostRecord(loss, rebuilt, left(state, rebuilt), loss == "damaged" or bool(traced))


def left(state: RigopsState, ownership: Ownership) -> tuple[str, ...]:
    """The traces that this record does not name."""
    owned = ownership.files
    return tuple(
        path
        for path in state.unrecorded
        if path not in owned and companion(path, STATE) not in owned
    )


def key_maker(path: str) -> str | None:
    """The concern that has the host make a key there; its deploy records one that is found."""
    shapes = ((shape, one.name) for one in registry.CONCERNS for shape in one.keys_made)
    return next((name for shape, name in shapes if fnmatchcase(path, shape)), None)


def with_rebuilt(state: RigopsState) -> RigopsState:
    """As it will be with a rebuilt record; `rebuilt` then says what is wrong with the present."""
    lost = lost_record(state)
    if lost is None or not lost.is_to_rebuild:
        return state
    there = {
        path: Present.from_stat(one.status, one.digest)
        for path, one in state.unrecorded.items()
        if path in lost.rebuilt.files
    }
    return replace(
        state,
        owned=lost.rebuilt.to_json(),
        present={**state.present, **there},
        rebuilt=lost.loss,
    )


def described(ownership: Ownership) -> str:
    """For a plan: every file that it names, and whether something was there before."""
    files = [ownership.files[path] for path in sorted(ownership.files)]
    names = [f"{one.path}{' (replaced one of before)' if one.previous else ''}\n" for one in files]
    return f"rebuilt: {len(files)} files\n{''.join(names)}"


def _loss(state: RigopsState) -> Loss | None:
    if not (state.are_files_known and state.are_traces_known):
        return None
    if state.owned is None:
        return "lost" if state.unrecorded else None
    try:
        Ownership.parse(state.owned)
    except json_fields.NewerError:
        return None
    except RigopsError:
        return "damaged"
    return "incomplete" if state.unrecorded else None


def _entries(state: RigopsState) -> dict[str, OwnedFile]:
    """The whole entries of a record, however damaged."""
    found: dict[str, OwnedFile] = {}
    for text in _entry_texts(state.owned or ""):
        with suppress(RigopsError):
            owned = entry_of(json_fields.parse(text, place=RECORD))
            found[owned.path] = owned
    return found


def _entry_texts(text: str) -> Iterator[str]:
    entry: list[str] = []
    for line in text.split("\n"):
        if line == _ENTRY_BEGINS:
            entry = [line]
        elif entry and line.rstrip(",") == _ENTRY_ENDS:
            yield "\n".join([*entry, _ENTRY_ENDS])
            entry = []
        elif entry:
            entry.append(line)


def _owned(path: str, trace: Trace, state: RigopsState) -> OwnedFile | None:
    if path in FOREIGN_FILES:
        path, mode = companion(path, STATE), _COMPANION_MODE
    else:
        mode = Present.from_stat(trace.status, trace.digest).mode
    concern = _writer(path)
    if concern is None or not (trace.is_made or trace.digest == _digest_of_sources(state)):
        return None
    return OwnedFile(
        path=path,
        concern=concern,
        digest=trace.digest,
        mode=mode,
        previous=_previous(path, trace, state),
    )


def _writer(path: str) -> str | None:
    shapes = ((shape, one.name) for one in registry.CONCERNS for shape in one.writes)
    return next((name for shape, name in shapes if fnmatchcase(path, shape)), None)


def _digest_of_sources(state: RigopsState) -> str:
    """Of the one file that does not say who made it."""
    pinned = driver.pinned(state.records.get(driver.PATH))
    return digest(pinned.source.encode()) if pinned and pinned.source else ""


def _previous(path: str, trace: Trace, state: RigopsState) -> Previous | None:
    """The first that was copied: a later copy is of what somebody made of our own."""
    fitting = [
        (one.changed, found)
        for one in state.originals
        if one.digest != trace.digest
        and one.name == (found := previous_of(path, Present.from_stat(one.status, one.digest))).name
    ]
    return min(fitting, key=itemgetter(0), default=(0, None))[1]
