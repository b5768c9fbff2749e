"""No ACS redirection on the ports between the GPUs: now, at every boot, and back again.

A boot unit runs a program of ours on the host, which finds the ports itself: addresses change with
the cards. It records what it has cleared, so that undoing is exact.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

from pyinfra.context import host

from rigops.concerns.acs import decide
from rigops.concerns.acs.state import AcsPorts, Port, judge_ports
from rigops.concerns.host_catalog import catalog_of
from rigops.concerns.live_settings import LiveSettings, settings_live, settings_undone
from rigops.concerns.preconditions import card_users, guards
from rigops.concerns.state import NOT_HERE, REFUSED, State
from rigops.facts.sections import Boot, Firmware, Processes, RigopsState, SectionFact
from rigops.hostside.packing import installed_at, pack
from rigops.inventory.spec.model import AcsRedirect
from rigops.ownership.owned_files import owned_program, owned_unit, undo_undeclared
from rigops.ownership.ownership import Ownership
from rigops.plan.commands import blockers
from rigops.plan.context import notice
from rigops.probe.section import Section
from rigops.probe.sections.rigops_state import STATE
from rigops.probe.text import single
from rigops.rendering import render

CONCERN: Final = "acs"  # and the host-side program that finds, clears and restores the ports
UNIT: Final = "rigops-acs.service"
PROGRAM: Final = installed_at(CONCERN)


def acs(*, redirect: AcsRedirect | None) -> None:
    """Have no redirection between the cards, or undo what was cleared; None: undeclared."""
    owned = Ownership.from_state(host.get_fact(RigopsState)).paths_of(CONCERN)
    if redirect != "off":
        if owned and _judged(redirect):
            _spare_the_jobs()
        is_declared = redirect is not None
        settings_undone(
            name="Ports between the cards",
            settings=_settings(None),
            verb="back",
            declared=is_declared,
        )
        undo_undeclared(name="Undo undeclared settings", concern=CONCERN, declared=is_declared)
        return
    states = _judged(redirect)
    if refused := tuple(state.why for state in states if state.status == REFUSED):
        blockers(name="Blockers", concern=CONCERN, reasons=refused)
        return
    # A card that is lost for a while undoes nothing.
    absent = [state.why for state in states if state.status == NOT_HERE]
    if absent and not owned:
        notice(host, CONCERN, absent[0])
        return
    if any(state.is_to_change for state in states):
        _spare_the_jobs()
    owned_program(name=PROGRAM, concern=CONCERN, program=CONCERN)
    owned_unit(
        name=UNIT,
        concern=CONCERN,
        unit=UNIT,
        content=render("rigops-acs.service.j2", program=PROGRAM, state=STATE),
    )
    settings_live(
        name="Ports between the cards",
        settings=_settings("off"),
        command=shlex.join((PROGRAM, "off")),
        unit=UNIT,
    )


def consequences() -> Iterator[str]:
    if guards.has_firmware_menus():
        yield decide.firmware_step(catalog_of(host), host.get_fact(Firmware))
    yield guards.virtual_machines(because="peer traffic that bypasses the IOMMU")


def _judged(redirect: AcsRedirect | None) -> list[State]:
    machine = decide.machine_of(host.get_fact(Boot)) if redirect == "off" else ""
    return judge_ports(redirect, host.get_fact(Acs), machine)


def _spare_the_jobs() -> None:
    """Writes between cards may arrive out of order while their path changes."""
    jobs = card_users.jobs(host.get_fact(Processes))
    if jobs or jobs is None:
        guards.gpus_are_free(name="GPU jobs", concern=CONCERN)


def _settings(redirect: AcsRedirect | None) -> LiveSettings:
    does = "no ACS redirection" if redirect == "off" else "ACS redirection again"
    return LiveSettings(
        concern=CONCERN,
        states=lambda: _judged(redirect),
        headlines=lambda ports: [f"{does} on {len(ports)} port{'s' * (len(ports) > 1)}"],
        subject=lambda state: state.name.removeprefix("port "),
        touches=frozenset({Acs}),
        word="cleared",
    )


_PORT = re.compile(
    r"(?P<kind>port|apart) (?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) "
    r"(?P<word>[0-9a-f]{4}|none|unreadable) ?(?P<earlier>[0-9a-f]{4})?"
)
_GPUS = re.compile(r"gpus ([0-9]{1,4})")


def parse(text: str) -> AcsPorts:
    gpus: int | None = None
    ports: list[Port] = []
    unparsed: list[str] = []
    is_locked_down = False
    for line in filter(None, map(str.strip, single(text))):
        if count := _GPUS.fullmatch(line):
            gpus = int(count[1])
        elif line == "lockdown":
            is_locked_down = True
        elif shape := _PORT.fullmatch(line):
            word, earlier = shape["word"], shape["earlier"]
            port = Port(
                address=shape["address"],
                word=None if word in {"none", "unreadable"} else int(word, 16),
                earlier=int(earlier, 16) if earlier else None,
                is_between=shape["kind"] == "port",
                is_readable=word != "unreadable",
            )
            ports.append(port)
        else:
            unparsed.append(line)
    return AcsPorts(
        gpus=gpus, ports=tuple(ports), is_locked_down=is_locked_down, unparsed=tuple(unparsed)
    )


SECTION = Section(
    name="acs", snippet=f"set -- show\n{pack(CONCERN).text}", parse=parse, wants_root=True
)


class Acs(SectionFact[AcsPorts]):
    section = SECTION
