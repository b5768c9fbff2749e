"""Governor and highest frequency of every CPU policy: now, at every boot, and undone.

A unit of ours runs a program on the host, which finds the policies itself: their number depends on
the driver. It records what it changes, so that undoing is exact.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator
from typing import TYPE_CHECKING, Final

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.cpu_tuning import NAME as CONCERN
from rigops.concerns.cpu_tuning import decide
from rigops.concerns.cpu_tuning.state import Declared
from rigops.concerns.state import REFUSED, UNKNOWN
from rigops.facts.sections import Boot, CpuFreq, RigopsState, Units
from rigops.hostside.packing import installed_at, pack
from rigops.ownership.file_work import Effect, FileWork, FileWorkCommand
from rigops.ownership.owned_files import owned_program, owned_unit, undo_undeclared
from rigops.ownership.ownership import Ownership
from rigops.plan.change import Change
from rigops.plan.commands import blockers
from rigops.plan.context import announce, headline, housekeeping, may_undo, notice, warning
from rigops.probe.sections.rigops_state import STATE
from rigops.rendering import render

if TYPE_CHECKING:
    from rigops.concerns.state import State
    from rigops.inventory.spec.model import Governor

UNIT: Final = "rigops-cpu-tuning.service"
_INSTALLED: Final = installed_at(CONCERN)
_NOT_DECLARED: Final = "-"


def cpu_tuning(*, governor: Governor | None, khz: int | None) -> None:
    """Have these on every policy; what is no longer declared is undone."""
    declared = Declared(governor, khz)
    if declared == Declared():
        policies_undone(name="CPU policies")
        undo_undeclared(name="Undo undeclared settings", concern=CONCERN, declared=False)
        return
    found = host.get_fact(CpuFreq)
    policies = decide.in_use(found)
    if not policies and found.unparsed:
        reasons = ("the CPU policies could not be read. fix: run this again",)
        blockers(name="Blockers", concern=CONCERN, reasons=reasons)
        return
    if not policies:
        boot = host.get_fact(Boot)
        machine = (boot.virtualization or "") if boot.is_virtual_machine else ""
        keys = {"cpu_max_freq": khz, "cpu_governor": governor}
        notice(host, CONCERN, decide.nothing_scales(machine, [name for name in keys if keys[name]]))
        # A BIOS setting that is off for a while undoes nothing.
        if not Ownership.from_state(host.get_fact(RigopsState)).paths_of(CONCERN):
            return
    states = _judged(declared)
    if refused := tuple(state.why for state in states if state.status == REFUSED):
        blockers(name="Blockers", concern=CONCERN, reasons=refused)
        return
    unknown = (state.text for state in states if state.status == UNKNOWN)
    for text in (*unknown, *decide.notices(declared, found)):
        notice(host, CONCERN, text)
    for text in decide.rivals(host.get_fact(Units)):
        warning(host, CONCERN, text)
    words = (governor or _NOT_DECLARED, str(khz or _NOT_DECLARED))
    owned_program(name=_INSTALLED, concern=CONCERN, program=CONCERN)
    owned_unit(
        name=UNIT,
        concern=CONCERN,
        unit=UNIT,
        content=render(
            f"{UNIT}.j2", program=_INSTALLED, state=STATE, governor=words[0], khz=words[1]
        ),
        stays_active=False,
    )
    policies_live(
        name="CPU policies",
        declared=declared,
        command=shlex.join((_INSTALLED, "set", *words)),
    )
    undo_undeclared(name="Undo undeclared settings", concern=CONCERN)


@operation()
def policies_live(*, declared: Declared, command: str) -> Generator[FileWorkCommand, None, None]:
    """Have every policy as declared. It comes after the program and the unit.

    + declared: None is undeclared
    + command: brings all of it about
    """
    pending = [state for state in _judged(declared) if state.is_to_change]
    if not pending:
        host.noop("every CPU policy is as declared")
        return
    for text in decide.headlines(pending):
        headline(host, CONCERN, text)
    for state in pending:
        _announce(state)
    # The program itself as well: it names the policy that refuses, where a unit only fails.
    work = FileWork(
        before=Ownership.from_state(host.get_fact(RigopsState)),
        more_effects=(Effect(command, unit=UNIT),),
    )
    yield FileWorkCommand(work, touches=frozenset({CpuFreq, RigopsState}))


@operation()
def policies_undone() -> Generator[FileWorkCommand, None, None]:
    """Undo what was set since the boot. An ``undo_undeclared`` of the files comes after it."""
    owned = Ownership.from_state(host.get_fact(RigopsState))
    ours = owned.paths_of(CONCERN)
    if not ours or not may_undo(host, CONCERN, ours):
        host.noop("nothing was set that is to be undone")
        return
    housekeeping(host, CONCERN, "what was set since the boot")
    pending = [state for state in _judged(Declared()) if state.is_to_change]
    for text in decide.headlines(pending, is_declared=False):
        headline(host, CONCERN, text)
    for state in pending:
        _announce(state)
    # Not the installed one, which somebody may have changed.
    command = shlex.join(("sh", "-c", pack(CONCERN).text, CONCERN, "back"))
    work = FileWork(before=owned, more_effects=(Effect(command),))
    yield FileWorkCommand(work, touches=frozenset({CpuFreq, RigopsState}))


def _judged(declared: Declared) -> list[State]:
    records, boot_id = host.get_fact(RigopsState).records, host.get_fact(Boot).boot_id
    return decide.judged(declared, host.get_fact(CpuFreq), records, boot_id)


def _announce(state: State) -> None:
    change = Change(CONCERN, "setting", state.name, f"{state.now}\n", f"{state.wanted}\n")
    announce(host, change)
