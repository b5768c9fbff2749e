"""No ACS redirection on the ports between the GPUs: now, at every boot, and back again.

A boot unit runs a program of ours on the host, which finds the ports itself: addresses change with
the cards. It records what it has cleared, so that undoing is exact.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.acs import decide
from rigops.concerns.acs.state import AcsPorts, Port, judge_ports
from rigops.concerns.host_catalog import catalog_of
from rigops.concerns.preconditions import gpu_jobs, guards
from rigops.concerns.state import NOT_HERE, REFUSED
from rigops.facts.sections import Boot, Firmware, Processes, RigopsState, SectionFact
from rigops.hostside.packing import installed_at, pack
from rigops.ownership.file_work import Effect, FileWork, FileWorkCommand
from rigops.ownership.owned_files import owned_program, owned_unit, undo_undeclared
from rigops.ownership.ownership import Ownership
from rigops.plan.change import Change
from rigops.plan.commands import blockers
from rigops.plan.context import announce, headline, housekeeping, may_undo, notice
from rigops.probe.section import Section
from rigops.probe.sections.rigops_state import STATE
from rigops.probe.text import single
from rigops.rendering import render

if TYPE_CHECKING:
    from rigops.concerns.state import State
    from rigops.inventory.spec.model import AcsRedirect


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
        redirection_back(name="Ports between the cards", declared=is_declared)
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
    redirection_off(name="Ports between the cards")


def consequences() -> Iterator[str]:
    if guards.has_firmware_menus():
        yield decide.firmware_step(catalog_of(host), host.get_fact(Firmware))
    yield guards.virtual_machines(because="peer traffic that bypasses the IOMMU")


def _judged(redirect: AcsRedirect | None) -> list[State]:
    machine = decide.machine_of(host.get_fact(Boot)) if redirect == "off" else ""
    return judge_ports(redirect, host.get_fact(Acs), machine)


def _spare_the_jobs() -> None:
    """Writes between cards may arrive out of order while their path changes."""
    jobs = gpu_jobs.jobs(host.get_fact(Processes))
    if jobs or jobs is None:
        guards.gpus_are_free(name="GPU jobs", concern=CONCERN)


@operation()
def redirection_off() -> Generator[FileWorkCommand, None, None]:
    """Clear what redirects, by the unit that does so at every boot. It comes after its files."""
    pending = [state for state in _judged("off") if state.is_to_change]
    if not pending:
        host.noop("no port between the cards redirects")
        return
    headline(host, CONCERN, f"no ACS redirection on {len(pending)} port{'s' * (len(pending) > 1)}")
    for state in pending:
        _announce(state)
    # The program itself as well: it names the port that refuses, where a unit only fails.
    effect = Effect(shlex.join((PROGRAM, "off")), unit=UNIT)
    work = FileWork(before=Ownership.from_state(host.get_fact(RigopsState)), more_effects=(effect,))
    yield FileWorkCommand(work, touches=frozenset({Acs}))


@operation()
def redirection_back(*, declared: bool) -> Generator[FileWorkCommand, None, None]:
    """Set again what was cleared since the boot. A ``undo_undeclared`` of the files comes after it.

    + declared: whether the inventory declares redirection at all; else this needs consent
    """
    owned = Ownership.from_state(host.get_fact(RigopsState))
    ours = owned.paths_of(CONCERN)
    if not ours or not (declared or may_undo(host, CONCERN, ours)):
        host.noop("nothing was cleared that is to be set again")
        return
    housekeeping(host, CONCERN, "what was cleared since the boot")
    states = _judged(None)
    if states:
        plural = "s" * (len(states) > 1)
        headline(host, CONCERN, f"ACS redirection again on {len(states)} port{plural}")
    for state in states:
        _announce(state)
    # Not the installed one, which may have been changed.
    command = shlex.join(("sh", "-c", pack(CONCERN).text, CONCERN, "back"))
    work = FileWork(before=owned, more_effects=(Effect(command),))
    yield FileWorkCommand(work, touches=frozenset({Acs}))


def _announce(state: State) -> None:
    port = state.name.removeprefix("port ")
    change = Change(CONCERN, "setting", port, f"{state.now}\n", f"{state.wanted}\n")
    announce(host, change)


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
