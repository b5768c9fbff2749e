"""Settings of a running host that a program of rigops' makes and records: now, and undone.

The program is named as its concern, and runs at every boot by a unit. It records what it sets, so
that undoing is exact.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from pyinfra.api.facts import FactBase
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.state import State
from rigops.dataclass import dataclass
from rigops.facts.sections import RigopsState
from rigops.hostside.packing import pack
from rigops.ownership.file_work import Effect, FileWork
from rigops.ownership.file_work_command import FileWorkCommand
from rigops.ownership.ownership import Ownership
from rigops.plan.change import Change
from rigops.plan.context import announce, headline, housekeeping, may_undo


@dataclass(frozen=True, kw_only=True)
class LiveSettings:
    """`states`: of the host as it is then. `subject`: of a change. `touches`: what shows it."""

    concern: str
    states: Callable[[], Iterable[State]]
    headlines: Callable[[Sequence[State]], Iterable[str]]
    subject: Callable[[State], str]
    touches: frozenset[type[FactBase[Any]]]
    word: str = "set"  # of what was done to them

    def announced(self) -> bool:
        """Whether anything is to be changed."""
        pending = [state for state in self.states() if state.is_to_change]
        for text in self.headlines(pending) if pending else ():
            headline(host, self.concern, text)
        for state in pending:
            before, after = f"{state.now}\n", f"{state.wanted}\n"
            announce(host, Change(self.concern, "setting", self.subject(state), before, after))
        return bool(pending)

    def command(self, effect: Effect) -> FileWorkCommand:
        owned = Ownership.from_state(host.get_fact(RigopsState))
        return FileWorkCommand(FileWork(before=owned, more_effects=(effect,)), touches=self.touches)


@operation()
def settings_live(
    *, settings: LiveSettings, command: str, unit: str
) -> Generator[FileWorkCommand, None, None]:
    """Have them as declared. It comes after the program and its unit.

    + command: brings all of it about
    """
    if not settings.announced():
        host.noop("every setting is as declared")
        return
    # The program itself as well: it names what refuses, where a unit only fails.
    yield settings.command(Effect(command, unit=unit))


@operation()
def settings_undone(
    *, settings: LiveSettings, verb: str, declared: bool = False
) -> Generator[FileWorkCommand, None, None]:
    """Undo what was set since the boot. An ``undo_undeclared`` of the files comes after it.

    + verb: of the program, which undoes
    + declared: whether the inventory declares anything of the concern; else this needs consent
    """
    ours = Ownership.from_state(host.get_fact(RigopsState)).paths_of(settings.concern)
    if not ours or not (declared or may_undo(host, settings.concern, ours)):
        host.noop("nothing was set that is to be undone")
        return
    housekeeping(host, settings.concern, f"what was {settings.word} since the boot")
    settings.announced()
    # Not the installed one, which may have been changed.
    program = settings.concern
    yield settings.command(Effect(shlex.join(("sh", "-c", pack(program).text, program, verb))))
