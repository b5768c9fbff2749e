"""The guard's program, its settings and its service; and its end, with the power given back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Final

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.thermal_guard import NAME as CONCERN
from rigops.concerns.thermal_guard import decide, record
from rigops.concerns.thermal_guard.decide import UNIT
from rigops.facts.sections import RigopsState, SectionFact, Smi
from rigops.hostside.packing import installed_at, pack
from rigops.ownership.file_work import Effect, FileWork
from rigops.ownership.file_work_command import FileWorkCommand
from rigops.ownership.owned_files import owned_file, owned_program, owned_unit, undo_undeclared
from rigops.ownership.ownership import Ownership
from rigops.plan.change import Change
from rigops.plan.commands import blockers
from rigops.plan.context import announce, headline, housekeeping, may_undo, notice, plan_of
from rigops.probe.section import Section
from rigops.probe.sections.units import SYSTEM_UNITS
from rigops.probe.text import single
from rigops.rendering import render

if TYPE_CHECKING:
    from rigops.inventory.spec import RigSpec


PYTHON: Final = "/usr/bin/python3"  # as the first line of the program has it

_VERSION = re.compile(r"python ([0-9]{1,3})\.([0-9]{1,3})")


def parse(text: str) -> tuple[int, ...]:
    """The version of its Python; empty where there is none."""
    shapes = (_VERSION.fullmatch(line.strip()) for line in single(text))
    return next((tuple(map(int, one.groups())) for one in shapes if one), ())


SECTION = Section(
    name="thermal-guard",
    snippet=f"""
[ ! -x {PYTHON} ] || {PYTHON} -I -c 'import sys
print("python %d.%d" % sys.version_info[:2])'
return 0
""",
    parse=parse,
)


class PythonFact(SectionFact[tuple[int, ...]]):
    section = SECTION


PROGRAM: Final = installed_at(CONCERN)
SETTINGS: Final = "/etc/rigops/thermal_guard"
COMMAND: Final = "/usr/local/sbin/rigops-guard"

_COMMAND_MODE: Final = 0o755
_ABSENCES: Final[Mapping[str, str]] = {SETTINGS: "rmdir /etc/rigops 2>/dev/null || :"}


def thermal_guard(spec: RigSpec) -> None:
    """Have the service watch the cards; what it holds now stays as it is."""
    report = host.get_fact(Smi)
    reasons = tuple(decide.blockers(spec, host.get_fact(PythonFact), report))
    if reasons:
        blockers(name="Blockers", concern=CONCERN, reasons=reasons)
        return
    for text in decide.notices(spec, report):
        notice(host, CONCERN, text)
    owned_program(name=PROGRAM, concern=CONCERN, program=CONCERN)
    owned_file(
        name=SETTINGS,
        concern=CONCERN,
        path=SETTINGS,
        content=render("thermal-guard.j2", lines=decide.settings(spec)),
    )
    owned_file(
        name=COMMAND,
        concern=CONCERN,
        path=COMMAND,
        content=render("rigops-guard.j2", program=PROGRAM),
        mode=_COMMAND_MODE,
    )
    owned_unit(name=UNIT, concern=CONCERN, unit=UNIT, content=render(f"{UNIT}.j2", program=PROGRAM))
    guard_restarted(name="The running guard")
    undo_undeclared(name="What is no longer declared", concern=CONCERN)
    changed = {one.subject: one for one in plan_of(host).changes if one.concern == CONCERN}
    if changed:
        before = changed[SETTINGS].before if SETTINGS in changed else None
        headline(host, CONCERN, decide.headline(spec, before or ""))


@operation()
def guard_restarted() -> Generator[FileWorkCommand, None, None]:
    """Have the service read a program and settings that are new. It comes after those."""
    changed = {one.subject for one in plan_of(host).changes if one.concern == CONCERN}
    # A new unit is started anyway.
    if changed.isdisjoint({PROGRAM, SETTINGS}) or f"{SYSTEM_UNITS}{UNIT}" in changed:
        host.noop("the guard runs with its program and settings")
        return
    housekeeping(host, CONCERN, "the running guard")
    work = FileWork(
        before=Ownership.from_state(host.get_fact(RigopsState)),
        more_effects=(Effect(shlex.join(("systemctl", "restart", UNIT))),),
    )
    yield FileWorkCommand(work, touches=frozenset({RigopsState}))


def guard_undeclared() -> None:
    guard_undone(name="The thermal guard")
    undo_undeclared(
        name="Undo undeclared settings", concern=CONCERN, declared=False, effects=_ABSENCES
    )


@operation()
def guard_undone() -> Generator[FileWorkCommand, None, None]:
    """Give the cards their power back. An ``undo_undeclared`` of the files comes after it."""
    state = host.get_fact(RigopsState)
    owned = Ownership.from_state(state)
    ours = owned.paths_of(CONCERN)
    if not ours or not may_undo(host, CONCERN, ours):
        host.noop("there is no guard that is to be undone")
        return
    housekeeping(host, CONCERN, "what the guard holds and has learned")
    for uuid, card in record.lowered(state.records).items():
        if uuid == card.uuid:
            subject = f"GPU {card.address} power limit"
            before, after = f"{card.watts:g} W", f"{card.watts_before:g} W"
            headline(host, CONCERN, f"{subject} {before} -> {after}")
            announce(host, Change(CONCERN, "setting", subject, f"{before}\n", f"{after}\n"))
    # Not the installed program, which may have been changed.
    undo = shlex.join((PYTHON, "-I", "-c", pack(CONCERN).text, "undo"))
    command = f"systemctl stop {UNIT} || :\n[ ! -x {PYTHON} ] || {undo}"
    work = FileWork(before=owned, more_effects=(Effect(command),))
    yield FileWorkCommand(work, touches=frozenset({Smi}))
