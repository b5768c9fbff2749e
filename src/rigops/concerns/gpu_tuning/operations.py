"""Persistence, power limits and clocks of the cards: now, at every boot, and undone.

A table on the host names the cards by UUID. A program of ours applies it: at boot, when the driver
is loaded again and after a suspend. It records what it sets, so that undoing is exact.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from pyinfra.context import host

from rigops.concerns.concern import InventorySpecs
from rigops.concerns.gpu_tuning import NAME as CONCERN
from rigops.concerns.gpu_tuning import decide, power_budget
from rigops.concerns.gpu_tuning.decide import TunedCard
from rigops.concerns.gpu_tuning.state import WORDS, Wanted
from rigops.concerns.host_catalog import catalog_of
from rigops.concerns.live_settings import LiveSettings, settings_live, settings_undone
from rigops.concerns.nvidia_driver import NAME as DRIVER
from rigops.concerns.preconditions import rivals
from rigops.concerns.state import UNKNOWN, State
from rigops.facts.sections import Boot, Pci, RigopsState, Smi, Units
from rigops.hostside.packing import installed_at
from rigops.inventory.spec import RigSpec
from rigops.ownership.owned_files import owned_file, owned_program, owned_unit, undo_undeclared
from rigops.plan.change import LaterChange
from rigops.plan.commands import blockers
from rigops.plan.context import (
    announce_later,
    notice,
    plan_of,
    provided,
    warning,
)
from rigops.power import KnownCard, Neighbors, sharing
from rigops.probe.lost_cards import LostCards
from rigops.probe.sections.units import SYSTEM_UNITS
from rigops.rendering import render

PROGRAM: Final = installed_at(CONCERN)
TABLE: Final = "/etc/rigops/gpu_tuning"
UNIT: Final = "rigops-gpu-tuning.service"
RESUME: Final = "rigops-gpu-tuning-resume.service"
RULE: Final = "/etc/udev/rules.d/90-rigops-gpu-tuning.rules"

_APPLY: Final = shlex.join((PROGRAM, "set"))
_RELOAD_RULES: Final = "udevadm control --reload 2>/dev/null || :"  # no udevd in a container
_ENABLE_RESUME: Final = f"systemctl --quiet --no-reload reenable {RESUME}"
_ABSENCES: Final[Mapping[str, str]] = {
    TABLE: "rmdir /etc/rigops 2>/dev/null || :",
    RULE: _RELOAD_RULES,
}


def gpu_tuning(spec: RigSpec) -> None:
    """Have these settings on the cards; what is no longer declared is undone."""
    report = host.get_fact(Smi)
    lost = provided(host, LostCards) or LostCards()
    if reason := decide.unreadable(report, lost.cards):
        _without_a_driver(spec, reason)
        return
    cards = decide.find_cards(report, catalog_of(host))
    tuning = decide.resolve(spec, cards)
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
    settings_live(
        name="Settings of the cards",
        settings=_settings(partial(_judged, tuning.wanted, cards)),
        command=_APPLY,
        unit=UNIT,
    )


def gpu_tuning_undeclared() -> None:
    settings_undone(
        name="Settings of the cards",
        settings=_settings(lambda: _judged((), ())[::-1], is_declared=False),
        verb="undo",
    )
    undo_undeclared(
        name="Undo undeclared settings", concern=CONCERN, declared=False, effects=_ABSENCES
    )


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


def _without_a_driver(spec: RigSpec, reason: str) -> None:
    """Nothing can be set yet. Where this run brings the driver, that comes after it."""
    plan = plan_of(host)
    is_coming = DRIVER in plan.packages_by or any(one == DRIVER for one, _ in plan.reboot_reasons)
    if not is_coming:
        blockers(name="The driver", concern=CONCERN, reasons=(reason,))
        return
    for text in decide.foreseen(spec.gpu_power_limit, host.get_fact(Pci), catalog_of(host)):
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
    states = decide.judged(wanted, cards, records, boot_id)
    for state in states:
        if state.status == UNKNOWN:
            notice(host, CONCERN, f"{state.subject}: {state.text}")
    return states


def _settings(states: Callable[[], Sequence[State]], *, is_declared: bool = True) -> LiveSettings:
    return LiveSettings(
        concern=CONCERN,
        states=states,
        headlines=partial(decide.headlines, is_declared=is_declared),
        subject=lambda state: f"GPU {state.subject.removeprefix('gpu ')} {state.name}",
        touches=frozenset({Smi}),
    )
