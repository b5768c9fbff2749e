"""Persistence, power limits and clocks of the cards: now, at every boot, and undone.

A table on the host names the cards by UUID. A program of ours applies it: at boot, when the driver
is loaded again and after a suspend. It records what it sets, so that undoing is exact.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.concern import InventorySpecs
from rigops.concerns.gpu_tuning import NAME as CONCERN
from rigops.concerns.gpu_tuning import decide, power_budget
from rigops.concerns.gpu_tuning.decide import Declared, TunedCard
from rigops.concerns.gpu_tuning.state import WORDS, Wanted
from rigops.concerns.host_catalog import catalog_of
from rigops.concerns.nvidia_driver import NAME as DRIVER
from rigops.concerns.preconditions import rivals
from rigops.concerns.state import UNKNOWN
from rigops.facts.sections import Boot, Pci, RigopsState, Smi, Units
from rigops.hostside.packing import installed_at, pack
from rigops.inventory.spec import RigSpec
from rigops.ownership.file_work import Effect, FileWork, FileWorkCommand
from rigops.ownership.owned_files import owned_file, owned_program, owned_unit, undo_undeclared
from rigops.ownership.ownership import Ownership
from rigops.plan.change import Change, LaterChange
from rigops.plan.commands import blockers
from rigops.plan.context import (
    announce,
    announce_later,
    headline,
    housekeeping,
    may_undo,
    notice,
    plan_of,
    provided,
    warning,
)
from rigops.power import Neighbors, sharing
from rigops.probe.lost_cards import LostCards
from rigops.probe.sections.units import SYSTEM_UNITS
from rigops.rendering import render

if TYPE_CHECKING:
    from rigops.concerns.state import State
    from rigops.inventory.spec.model import Clocks, PerGpu, PowerLimit
    from rigops.power import KnownCard

PROGRAM: Final = installed_at(CONCERN)
TABLE: Final = "/etc/rigops/gpu_tuning"
UNIT: Final = "rigops-gpu-tuning.service"
RESUME: Final = "rigops-gpu-tuning-resume.service"
RULE: Final = "/etc/udev/rules.d/90-rigops-gpu-tuning.rules"

_APPLY: Final = shlex.join((PROGRAM, "set"))
_RELOAD_RULES: Final = "udevadm control --reload 2>/dev/null || :"  # no udevd in a container
_ENABLE_RESUME: Final = f"systemctl daemon-reload && systemctl --quiet reenable {RESUME}"
_ABSENCES: Final[Mapping[str, str]] = {
    TABLE: "rmdir /etc/rigops 2>/dev/null || :",
    RULE: _RELOAD_RULES,
}


def gpu_tuning(
    *,
    persistence: bool | None,
    power: PerGpu[PowerLimit] | None,
    clocks: PerGpu[Clocks] | None,
) -> None:
    """Have these settings on the cards; what is no longer declared is undone."""
    declared = Declared(persistence=persistence, power=power, clocks=clocks)
    if not declared:
        settings_undone(name="Settings of the cards")
        undo_undeclared(
            name="Undo undeclared settings", concern=CONCERN, declared=False, effects=_ABSENCES
        )
        return
    report = host.get_fact(Smi)
    lost = provided(host, LostCards) or LostCards()
    if reason := decide.unreadable(report, lost.cards):
        _without_a_driver(declared, reason)
        return
    cards = decide.find_cards(report, catalog_of(host))
    tuning = decide.resolve(declared, cards)
    if tuning.blockers:
        blockers(name="Blockers", concern=CONCERN, reasons=tuning.blockers)
        return
    for text in tuning.notices:
        notice(host, CONCERN, text)
    for text in rivals.notices(host.get_fact(Units)):
        warning(host, CONCERN, text)
    _notice_the_budget(power_budget.known(cards))
    owned_program(name=PROGRAM, concern=CONCERN, program=CONCERN)
    owned_file(
        name=TABLE,
        concern=CONCERN,
        path=TABLE,
        content=render("gpu-tuning.j2", lines=[one.line for one in tuning.wanted]),
        effect=_APPLY,
        touches=frozenset({Smi}),
    )
    owned_unit(name=UNIT, concern=CONCERN, unit=UNIT, content=render(f"{UNIT}.j2", program=PROGRAM))
    resume = host.get_fact(RigopsState).units.get(RESUME)
    owned_file(
        name=RESUME,
        concern=CONCERN,
        path=f"{SYSTEM_UNITS}{RESUME}",
        content=render(f"{RESUME}.j2", unit=UNIT),
        effect=_ENABLE_RESUME,
        live=resume is None or resume.enabled == "enabled",
    )
    owned_file(
        name=RULE,
        concern=CONCERN,
        path=RULE,
        content=render("rigops-gpu-tuning.rules.j2", unit=UNIT),
        effect=_RELOAD_RULES,
    )
    settings_live(name="Settings of the cards", wanted=tuning.wanted, cards=cards)


def _notice_the_budget(cards: Sequence[KnownCard]) -> None:
    spec, every = provided(host, RigSpec), provided(host, InventorySpecs)
    if spec is None:
        return
    is_shared = any(circuit.name for circuit in spec.circuits or ())
    neighbors = sharing(host.name, every.by_host()) if every and is_shared else ()
    others = Neighbors(neighbors).shares(catalog_of(host))
    for text in power_budget.odd_breakers(spec):
        notice(host, CONCERN, text)
    if text := power_budget.excess(spec, cards, others):
        warning(host, CONCERN, text)


def _without_a_driver(declared: Declared, reason: str) -> None:
    """Nothing can be set yet. Where this run brings the driver, that comes after it."""
    plan = plan_of(host)
    is_coming = DRIVER in plan.packages_by or any(one == DRIVER for one, _ in plan.reboot_reasons)
    if not is_coming:
        blockers(name="The driver", concern=CONCERN, reasons=(reason,))
        return
    for text in decide.foreseen(declared.power, host.get_fact(Pci), catalog_of(host)):
        notice(host, CONCERN, text)
    _notice_the_budget(power_budget.foreseen(host.get_fact(Pci), catalog_of(host)))
    when = "once the driver is loaded"
    for path in (PROGRAM, TABLE, f"{SYSTEM_UNITS}{RESUME}", RULE):
        announce_later(host, LaterChange(CONCERN, "file", path, when=""))
    announce_later(host, LaterChange(CONCERN, "unit", f"{SYSTEM_UNITS}{UNIT}", when=when))
    for gpu in host.get_fact(Pci).nvidia_gpus:
        for setting in WORDS:
            later = LaterChange(CONCERN, "setting", decide.subject(gpu.address, setting), when="")
            announce_later(host, later)


def _judged(wanted: Sequence[Wanted], cards: Sequence[TunedCard]) -> list[State]:
    records, boot_id = host.get_fact(RigopsState).records, host.get_fact(Boot).boot_id
    return decide.judged(wanted, cards, records, boot_id)


@operation()
def settings_live(
    *, wanted: Sequence[Wanted], cards: Sequence[TunedCard]
) -> Generator[FileWorkCommand, None, None]:
    """Have every card as the table says. It comes after the table and the unit.

    + wanted: the lines of the table
    + cards: the cards as they are
    """
    states = _judged(wanted, cards)
    for state in states:
        if state.status == UNKNOWN:
            notice(host, CONCERN, f"{state.subject}: {state.text}")
    pending = [one for one in states if one.is_to_change]
    if not pending:
        host.noop("every card is as declared")
        return
    for text in decide.headlines(pending):
        headline(host, CONCERN, text)
    for one in pending:
        _announce(one)
    # The program itself as well: it names the card that refuses, where a unit only fails.
    work = FileWork(
        before=Ownership.from_state(host.get_fact(RigopsState)),
        more_effects=(Effect(_APPLY, unit=UNIT),),
    )
    yield FileWorkCommand(work, touches=frozenset({Smi}))


@operation()
def settings_undone() -> Generator[FileWorkCommand, None, None]:
    """Undo what was set since the boot. An ``undo_undeclared`` of the files comes after it."""
    owned = Ownership.from_state(host.get_fact(RigopsState))
    ours = owned.paths_of(CONCERN)
    if not ours or not may_undo(host, CONCERN, ours):
        host.noop("nothing was set that is to be undone")
        return
    housekeeping(host, CONCERN, "what was set since the boot")
    pending = _judged((), ())[::-1]
    for text in decide.headlines(pending, is_declared=False):
        headline(host, CONCERN, text)
    for one in pending:
        _announce(one)
    # Not the installed one, which may have been changed.
    command = shlex.join(("sh", "-c", pack(CONCERN).text, CONCERN, "undo"))
    work = FileWork(before=owned, more_effects=(Effect(command),))
    yield FileWorkCommand(work, touches=frozenset({Smi}))


def _announce(state: State) -> None:
    subject = f"GPU {state.subject.removeprefix('gpu ')} {state.name}"
    change = Change(CONCERN, "setting", subject, f"{state.now}\n", f"{state.wanted}\n")
    announce(host, change)
