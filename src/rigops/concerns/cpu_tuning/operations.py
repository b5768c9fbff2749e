"""Governor and highest frequency of every CPU policy: now, at every boot, and undone.

A unit of ours runs a program on the host, which finds the policies itself: their number depends on
the driver. It records what it changes, so that undoing is exact.
"""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Final

from pyinfra.context import host

from rigops.concerns.cpu_tuning import NAME as CONCERN
from rigops.concerns.cpu_tuning import decide
from rigops.concerns.cpu_tuning.state import Declared
from rigops.concerns.live_settings import LiveSettings, settings_live, settings_undone
from rigops.concerns.state import REFUSED, UNKNOWN, State
from rigops.facts.sections import Boot, CpuFreq, RigopsState, Units
from rigops.hostside.packing import installed_at
from rigops.ownership.owned_files import owned_program, owned_unit, undo_undeclared
from rigops.ownership.ownership import Ownership
from rigops.plan.commands import blockers
from rigops.plan.context import notice, warning
from rigops.probe.sections.rigops_state import STATE
from rigops.rendering import render

if TYPE_CHECKING:
    from rigops.inventory.spec.model import Governor

UNIT: Final = "rigops-cpu-tuning.service"
_INSTALLED: Final = installed_at(CONCERN)


def cpu_tuning(*, governor: Governor | None, khz: int | None) -> None:
    """Have these on every policy; what is no longer declared is undone."""
    declared = Declared(governor, khz)
    if declared == Declared():
        settings_undone(name="CPU policies", settings=_settings(declared), verb="back")
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
    words = declared.words
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
    settings_live(
        name="CPU policies",
        settings=_settings(declared),
        command=shlex.join((_INSTALLED, "set", *words)),
        unit=UNIT,
    )
    undo_undeclared(name="Undo undeclared settings", concern=CONCERN)


def _settings(declared: Declared) -> LiveSettings:
    return LiveSettings(
        concern=CONCERN,
        states=lambda: _judged(declared),
        headlines=partial(decide.headlines, is_declared=declared != Declared()),
        subject=lambda state: state.name,
        touches=frozenset({CpuFreq, RigopsState}),
    )


def _judged(declared: Declared) -> list[State]:
    records, boot_id = host.get_fact(RigopsState).records, host.get_fact(Boot).boot_id
    return decide.judged(declared, host.get_fact(CpuFreq), records, boot_id)
