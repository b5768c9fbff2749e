"""Lines that rigops owns in a file whose other lines are somebody else's."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.facts.files import FileAt
from rigops.facts.sections import RigopsState
from rigops.ownership import Ownership, Present, WantedFile, lines, reconcile
from rigops.ownership.file_work import Effect, FileWork, FileWorkCommand, replaced, target
from rigops.ownership.files import digest, previous_of
from rigops.plan.change import Change, LaterChange
from rigops.plan.context import announce, announce_later, notice, plan_log

if TYPE_CHECKING:
    from collections.abc import Generator

    from pyinfra.api.facts import FactBase
    from pyinfra.api.host import Host

_COMPANION_MODE: Final = 0o644


@dataclass(frozen=True)
class LinesFile:
    """A file with foreign lines as it is now. `unfit`: why rigops does not edit it."""

    path: str
    present: Present | None
    text: str
    parted: lines.Parted
    unfit: str = ""

    @property
    def companion(self) -> str:
        return lines.companion(self.path)

    def has(self, ours: tuple[str, ...]) -> bool:
        return self.parted.block == self.block(ours)

    def block(self, ours: tuple[str, ...]) -> str:
        made_file = self.parted.rigops_made_it if self.parted.block else self.present is None
        return lines.block(ours, made_file=made_file)


def read_lines_file(host: Host, path: str) -> LinesFile:
    found = host.get_fact(FileAt, path=path)
    if found is None:
        return LinesFile(path, None, "", lines.Parted("", "", ""))
    parted = lines.part(found.text)
    unfit = ""
    if digest(found.text.encode()) != found.digest:
        unfit = f"{path} is not plain text (UTF-8, up to 64 KiB): rigops does not edit it"
    elif parted is None:
        unfit = (
            f"the marks of rigops in {path} are damaged: delete what is left of them and of the "
            "lines between them"
        )
    whole = lines.Parted("", "", found.text)
    return LinesFile(path, found.present, found.text, parted or whole, unfit)


@operation()
def owned_lines(
    *,
    concern: str,
    path: str,
    ours: tuple[str, ...],
    touches: frozenset[type[FactBase[Any]]] = frozenset(),
) -> Generator[FileWorkCommand, None, None]:
    """Have these lines in this file. ``undo_undeclared`` with ``absence`` of the same file ends it.

    + concern: the deploy that wants them
    + ours: at least one line
    + touches: the facts that a change of the file changes
    """
    file = read_lines_file(host, path)
    block = file.block(ours)
    plan_log(host).wanted_paths.setdefault(concern, set()).add(file.companion)
    state = host.get_fact(RigopsState)
    owned = Ownership.of(state)
    wanted = {file.companion: WantedFile(concern, digest(block.encode()), _COMPANION_MODE)}
    there = {file.companion: _companion_now(host, file.companion)}
    steps = reconcile(owned.only([file.companion]), wanted, there, selected={concern})
    in_place = file.has(ours)
    effect = Effect() if in_place else Effect(_put(host, concern, file, block))
    work = FileWork(
        before=owned,
        steps=tuple(steps),
        contents={file.companion: block.encode()},
        effects={file.companion: effect},
        anew=() if in_place else (effect,),
    )
    if not work:
        host.noop(f"{path} has the lines that are declared")
        return
    if in_place:
        announce(host, Change(concern, "file", file.companion, None, block))
    else:
        before = file.text if file.present else None
        announce(host, Change(concern, "file", path, before, file.parted.put(block)))
    yield FileWorkCommand(work, touches=touches)


def absence(host: Host, concern: str, path: str) -> str:
    """The command that takes our lines out of the file, for ``undo_undeclared``."""
    file = read_lines_file(host, path)
    if not file.parted.block:
        return f'{_target(file)}\nrm -f "$at.rigops-new"'
    if not _is_ours(host, file):
        text = f"the lines of rigops in {path} are no longer declared, but were changed by hand"
        notice(host, concern, f"{text}: left alone")
        plan_log(host).wanted_paths.setdefault(concern, set()).add(file.companion)
        return ""
    if file.parted.rigops_made_it and not file.parted.foreign:
        return f'{_target(file)}\nrm -f "$at"'
    return _replace(file, file.parted.foreign)


def show_lines_change(host: Host, path: str) -> None:
    """In place of the companion, a plan's reader sees the file that its going changes."""
    file = read_lines_file(host, path)
    changes = plan_log(host).changes
    for at, change in enumerate(changes):
        if change.subject == file.companion and change.after is None and file.parted.block:
            left = file.parted.foreign
            gone = file.parted.rigops_made_it and not left
            after = None if gone else left
            changes[at] = Change(change.concern, "file", path, file.text, after)
            announce_later(host, LaterChange(change.concern, "file", change.subject, when=""))


def _companion_now(host: Host, companion: str) -> Present | None:
    state = host.get_fact(RigopsState)
    if companion in Ownership.of(state).files:
        return state.present.get(companion)
    there = host.get_fact(FileAt, path=companion)
    return there.present if there else None


def _is_ours(host: Host, file: LinesFile) -> bool:
    record = Ownership.of(host.get_fact(RigopsState)).files.get(file.companion)
    return record is not None and file.parted.digest in {record.digest, record.replaces}


def _put(host: Host, concern: str, file: LinesFile, block: str) -> str:
    keeping = ""
    if file.present and file.parted.block and not _is_ours(host, file):
        name = previous_of(file.path, file.present).name
        notice(
            host, concern, f"the lines of rigops in {file.path} were changed by hand: a copy stays"
        )
        keeping = shlex.join(("back_up", file.path, name)) + "\n"
    return keeping + _replace(file, file.parted.put(block))


def _target(file: LinesFile) -> str:
    return target(file.path, file.present.digest if file.present else None)


def _replace(file: LinesFile, text: str) -> str:
    return replaced(file.path, file.present.digest if file.present else None, text)
