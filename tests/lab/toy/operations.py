"""What the toy does on a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.facts.sections import RigopsState, SectionFact
from rigops.ownership.file_work import Effect, FileWork
from rigops.ownership.file_work_command import FileWorkCommand
from rigops.ownership.owned_files import owned_file, owned_unit, undo_undeclared
from rigops.ownership.ownership import Ownership
from rigops.plan.change import Change
from rigops.plan.context import announce
from tests.lab.toy.concern import BOOTED, FILE, LIVE, NAME, SECTION, UNIT, Toy, judge

if TYPE_CHECKING:
    from collections.abc import Generator

_UNIT = f"""\
[Unit]
Description=The toy's level, at boot

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'case $(systemctl is-system-running) in initializing|starting) \
sed -n s/level=//p {FILE} >{BOOTED};; esac; sed -n s/level=//p {FILE} >{LIVE}'

[Install]
WantedBy=multi-user.target
"""


class ToyFact(SectionFact[Toy]):
    section = SECTION


def booted_with() -> str:
    return host.get_fact(ToyFact).booted


def toy(level: int | None) -> None:
    if level is not None:
        owned_file(name=FILE, concern=NAME, path=FILE, content=f"level={level}\n")
        owned_unit(name=UNIT, concern=NAME, unit=UNIT, content=_UNIT)
        live_level(name="The live level", level=level)
    undo_undeclared(
        name="Undo undeclared settings",
        concern=NAME,
        declared=level is not None,
        effects={FILE: f"rm -f {LIVE}"},
    )


@operation()
def live_level(*, level: int) -> Generator[FileWorkCommand, None, None]:
    (state,) = judge(level, host.get_fact(ToyFact).live)
    if not state.is_to_change:
        host.noop("the live level is as declared")
        return
    announce(host, Change(NAME, "setting", LIVE, f"{state.now}\n", f"{state.wanted}\n"))
    work = FileWork(
        before=Ownership.from_state(host.get_fact(RigopsState)),
        more_effects=(Effect(f"echo {level} >{LIVE}"),),
    )
    yield FileWorkCommand(work, touches=frozenset({ToyFact}))
