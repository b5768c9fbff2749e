"""The work on owned files as one command of pyinfra."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyinfra.api.command import StringCommand
from pyinfra.api.facts import FactBase

from rigops.ownership.file_work import FileWork, script
from rigops.ownership.ownership import Forget, Make, Undo, Write
from rigops.probe.sections import rigops_state
from rigops.probe.sections.rigops_state import Present


class FileWorkCommand(StringCommand):
    """One exec. The engine of rigops joins several that follow each other into one.

    Each ends with systemd's reload where that is needed; the engine has one for all of them.

    `touches`: the facts that the effects may change. The steps' own changes are known.
    """

    def __init__(self, work: FileWork, *, touches: frozenset[type[FactBase[Any]]]) -> None:
        text = script(work, reloads=True)
        super().__init__("sh", "-s", _stdin=text)
        self.size = len(text)
        self.work = work
        self.touches = touches

    @property
    def paths(self) -> tuple[str, ...]:
        """The files whose content is known afterwards: not those that are restored."""
        return tuple(self.work.contents)

    def foreseen(self, state: rigops_state.RigopsState) -> rigops_state.RigopsState:
        """The record and the owned files as they will be then."""
        present = dict(state.present)
        for step in self.work.steps:
            match step:
                case Write(record) | Make(record):
                    present[record.path] = Present(record.digest, record.mode)
                case Undo(owned) | Forget(owned):
                    present.pop(owned.path, None)
                case _:
                    pass
        records = {**state.records}
        records |= {path: text.decode() for path, text in self.work.notes.items()}
        changed = {path.rpartition("/")[2] for path in (*self.work.contents, *self.work.effects)}
        after = self.work.after
        return replace(
            state,
            owned=after.to_json(),
            present=present,
            unrecorded={
                path: trace for path, trace in state.unrecorded.items() if path not in after.files
            },
            strays=(),
            units={name: unit for name, unit in state.units.items() if name not in changed},
            records=records,
        )
