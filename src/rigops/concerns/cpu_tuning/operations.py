"""Governor and highest frequency of every CPU policy: now, at every boot, and undone.

A unit of ours runs a program on the host, which finds the policies itself: their number depends on
the driver. It records what it changes, so that undoing is exact.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Final

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.cpu_tuning import NAME as CONCERN
from rigops.concerns.cpu_tuning import decide
from rigops.concerns.cpu_tuning.decide import Declared, Setting
from rigops.concerns.cpu_tuning.facts import PROGRAM, CpuTuning
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
    from rigops.inventory.spec.model import Governor

UNIT: Final = "rigops-cpu-tuning.service"
_INSTALLED: Final = installed_at(PROGRAM)
_NOT_DECLARED: Final = "-"


def cpu_tuning(*, governor: Governor | None, khz: int | None) -> None:
    """Have these on every policy; what is no longer declared is undone."""
    declared = Declared(governor, khz)
    if declared == Declared():
        policies_undone(name="CPU policies")
        undo_undeclared(name="What is no longer declared", concern=CONCERN, declared=False)
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
    tuned = host.get_fact(CpuTuning)
    if refused := tuple(decide.refusals(declared, policies, tuned.loadable)):
        blockers(name="Blockers", concern=CONCERN, reasons=refused)
        return
    for text in decide.notices(declared, found):
        notice(host, CONCERN, text)
    for text in decide.rivals(host.get_fact(Units)):
        warning(host, CONCERN, text)
    words = (governor or _NOT_DECLARED, str(khz or _NOT_DECLARED))
    owned_program(name=_INSTALLED, concern=CONCERN, program=PROGRAM)
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
        settings=decide.settings(declared, policies, tuned.was),
        command=shlex.join((_INSTALLED, "set", *words)),
    )
    undo_undeclared(name="What is no longer declared", concern=CONCERN)


@operation()
def policies_live(
    *, settings: Sequence[Setting], command: str
) -> Generator[FileWorkCommand, None, None]:
    """Have every policy as declared. It comes after the program and the unit.

    + settings: what differs
    + command: brings all of it about
    """
    if not settings:
        host.noop("every CPU policy is as declared")
        return
    headline(host, CONCERN, " and ".join(dict.fromkeys(_in_short(one) for one in settings)))
    for one in settings:
        _announce(one)
    # The program itself as well: it names the policy that refuses, where a unit only fails.
    work = FileWork(
        before=Ownership.from_state(host.get_fact(RigopsState)),
        more_effects=(Effect(command, unit=UNIT),),
    )
    yield FileWorkCommand(work, touches=frozenset({CpuFreq, CpuTuning}))


@operation()
def policies_undone() -> Generator[FileWorkCommand, None, None]:
    """Undo what was set since the boot. An ``undo_undeclared`` of the files comes after it."""
    owned = Ownership.from_state(host.get_fact(RigopsState))
    ours = owned.paths_of(CONCERN)
    if not ours or not may_undo(host, CONCERN, ours):
        host.noop("nothing was set that is to be undone")
        return
    housekeeping(host, CONCERN, "what was set since the boot")
    policies = decide.in_use(host.get_fact(CpuFreq))
    for one in decide.settings(Declared(), policies, host.get_fact(CpuTuning).was):
        _announce(one)
    # Not the installed one, which somebody may have changed.
    command = shlex.join(("sh", "-c", pack(PROGRAM).text, PROGRAM, "back"))
    work = FileWork(before=owned, more_effects=(Effect(command),))
    yield FileWorkCommand(work, touches=frozenset({CpuFreq, CpuTuning}))


def _in_short(setting: Setting) -> str:
    what = "CPU governor" if setting.kind == "governor" else "CPU up to"
    return f"{what} {decide.shown(setting.after)}"


def _announce(setting: Setting) -> None:
    before, after = (f"{decide.shown(one)}\n" for one in (setting.before, setting.after))
    announce(host, Change(CONCERN, "setting", setting.subject, before, after))
