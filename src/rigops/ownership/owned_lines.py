"""Lines that rigops owns in a foreign file: one block between two marks.

A companion file that holds the same block is what the record knows: it is written, replaced and
undone like every owned file, and its digest says whether the block is still ours. All bytes
outside the block stay; the block goes to the top, so that nothing depends on how the last line
ends.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator, Iterable
from typing import Any, Final

from pyinfra.api.facts import FactBase
from pyinfra.api.host import Host
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.dataclass import dataclass
from rigops.facts.files import FileAt
from rigops.facts.sections import RigopsState
from rigops.ownership.file_work import Effect, FileWork, replaced, target
from rigops.ownership.file_work_command import FileWorkCommand
from rigops.ownership.owned_files import present
from rigops.ownership.ownership import Ownership, WantedFile, digest, previous_of, reconcile
from rigops.plan.change import Change, LaterChange
from rigops.plan.context import announce, announce_later, notice, plan_of, wanted_paths
from rigops.probe.sections.rigops_state import Present

_COMPANION_MODE: Final = 0o644
_FOLDER: Final = "/var/lib/rigops/lines"

# Neither has an equals sign: some programs would take that for a setting.
_BEGIN: Final = "# rigops owns the lines from here on"
_BEGIN_NEW: Final = "# rigops made this file and owns the lines from here on"
_END: Final = "# rigops owns the lines up to here"


def companion(path: str) -> str:
    return f"{_FOLDER}/{path.strip('/').replace('/', '-')}"


def shown_path(path: str) -> str:
    """The path that people know: of a companion that of the file with the lines, below /etc."""
    name = path.removeprefix(f"{_FOLDER}/etc-")
    return path if name == path else f"/etc/{name}"


@dataclass(frozen=True)
class Parted:
    """The block with its marks, and what is around it. No block: everything is `after`."""

    before: str
    block: str
    after: str

    @property
    def foreign(self) -> str:
        return self.before + self.after

    @property
    def rigops_made_it(self) -> bool:
        return self.block.startswith(_BEGIN_NEW)

    @property
    def digest(self) -> str:
        """As of a block whose last line ends, whatever an editor made of the file's end."""
        block = self.block if self.block.endswith("\n") else f"{self.block}\n"
        return digest(block.encode()) if self.block else ""

    @property
    def without_block(self) -> str | None:
        """None: without the file."""
        return None if self.rigops_made_it and not self.foreign else self.foreign

    def put(self, block: str) -> str:
        """The whole text with this block in place of the one that is there."""
        return self.before + block + self.after


@dataclass(frozen=True)
class LinesFile:
    """A file with foreign lines as it is now. `unfit`: why rigops does not edit it."""

    path: str
    present: Present | None
    text: str
    parted: Parted
    unfit: str = ""

    @property
    def companion(self) -> str:
        return companion(self.path)

    @property
    def digest(self) -> str | None:
        return self.present.digest if self.present else None

    def has(self, ours: tuple[str, ...]) -> bool:
        return self.parted.block == self.block(ours)

    def block(self, ours: tuple[str, ...]) -> str:
        made_file = self.parted.rigops_made_it if self.parted.block else self.present is None
        return block(ours, made_file=made_file)


def read_lines_file(host: Host, path: str) -> LinesFile:
    found = host.get_fact(FileAt, path=path)
    if found is None:
        return LinesFile(path, None, "", Parted("", "", ""))
    parted, unfit = part(found.text), ""
    if digest(found.text.encode()) != found.digest:
        unfit = f"{path} is not plain text (UTF-8, up to 64 KiB): rigops does not edit it"
    elif parted is None:
        unfit = (
            f"the marks of rigops in {path} are damaged: delete their rest and the lines between "
            "them"
        )
    parted = parted or Parted("", "", found.text)
    return LinesFile(path, found.present, found.text, parted, unfit)


def part(text: str) -> Parted | None:
    """None: marks without their counterpart, so that it is unknown what is whose."""
    lines = text.split("\n")
    marks = [line.rstrip("\r") for line in lines]
    begins = [at for at, line in enumerate(marks) if line in {_BEGIN, _BEGIN_NEW}]
    ends = [at for at, line in enumerate(marks) if line == _END]
    if not begins and not ends:
        return Parted("", "", text)
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        return None
    start = sum(len(line) + 1 for line in lines[: begins[0]])
    stop = sum(len(line) + 1 for line in lines[: ends[0] + 1])
    return Parted(text[:start], text[start:stop], text[stop:])


def block(ours: Iterable[str], *, made_file: bool) -> str:
    """Empty where there is nothing to own."""
    lines = list(ours)
    if not lines:
        return ""
    begin = _BEGIN_NEW if made_file else _BEGIN
    return "".join(f"{line}\n" for line in (begin, *lines, _END))


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
    wanted_paths(host, concern).add(file.companion)
    owned = Ownership.from_state(host.get_fact(RigopsState))
    wanted = {file.companion: WantedFile(concern, digest(block.encode()), _COMPANION_MODE)}
    there = present(host, [file.companion])
    steps = reconcile(owned.only([file.companion]), wanted, there, selected={concern})
    in_place = file.has(ours)
    effect = Effect() if in_place else Effect(_put(host, file, block))
    work = FileWork(
        before=owned,
        steps=tuple(steps),
        contents={file.companion: block.encode()},
        effects={file.companion: effect},
        more_effects=() if in_place else (effect,),
    )
    if not work:
        host.noop(f"{path} has the lines that are declared")
        return
    if in_place:
        announce(host, Change(concern, "file", file.companion, None, block))
    else:
        before, after = file.text if file.present else None, file.parted.put(block)
        announce(
            host, Change(concern, "file", path, before, after, by_hand=_is_by_hand(host, file))
        )
    yield FileWorkCommand(work, touches=touches)


def absence(host: Host, concern: str, path: str) -> str:
    """The command that takes our lines out of the file, for ``undo_undeclared``."""
    file = read_lines_file(host, path)
    if not file.parted.block:
        return f'{target(path, file.digest)}\nrm -f "$at.rigops-new"'
    if not _is_ours(host, file):
        text = f"the lines of rigops in {path} are no longer declared, but were changed by hand"
        notice(host, concern, f"{text}: left alone")
        wanted_paths(host, concern).add(file.companion)
        return ""
    return replaced(path, file.digest, file.parted.without_block)


def show_lines_change(host: Host, path: str) -> None:
    """A plan shows the change of the file itself in place of that of the companion."""
    file = read_lines_file(host, path)
    plan = plan_of(host)
    changes = list(plan.changes)
    for at, change in enumerate(changes):
        if change.subject == file.companion and change.after is None and file.parted.block:
            after = file.parted.without_block
            changes[at] = Change(change.concern, "file", path, file.text, after)
            announce_later(host, LaterChange(change.concern, "file", change.subject, when=""))
    plan.changes = tuple(changes)


def _is_ours(host: Host, file: LinesFile) -> bool:
    record = Ownership.from_state(host.get_fact(RigopsState)).files.get(file.companion)
    return record is not None and file.parted.digest in {record.digest, record.replaces}


def _is_by_hand(host: Host, file: LinesFile) -> bool:
    return bool(file.parted.block) and not _is_ours(host, file)


def _put(host: Host, file: LinesFile, block: str) -> str:
    backup = ""
    if file.present and _is_by_hand(host, file):
        name = previous_of(file.path, file.present).name
        backup = shlex.join(("back_up", file.path, name)) + "\n"
    return backup + replaced(file.path, file.digest, file.parted.put(block))
