"""The snapshot of a host that a run of plan or apply needs. One exec.

Only these sections, and not doctor's facts of everything: a converged host costs little more than
the login.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rigops.concerns.preconditions import root as roots
from rigops.converge.engine import seen
from rigops.converge.errors import NoRootError
from rigops.converge.silicon import SECTION as SILICON
from rigops.dataclass import dataclass
from rigops.facts.files import FileFound, files_section
from rigops.facts.sections import (
    Boot,
    CommandLine,
    DriverLoaded,
    OsRelease,
    RigopsState,
    Uname,
)
from rigops.probe import lost_cards
from rigops.probe.collect import collect
from rigops.probe.lost_cards import LostCards
from rigops.probe.sections import (
    boot,
    bootloader,
    nvidia_version,
    os_release,
    proc_cmdline,
    rigops_state,
    uname,
)
from rigops.probe.snapshot import HostSnapshot
from rigops.transport.errors import clean

if TYPE_CHECKING:
    from pyinfra.api.facts import FactBase

    from rigops.concerns.concern import Concern
    from rigops.converge.silicon import Silicon
    from rigops.inventory.spec import RigSpec
    from rigops.probe.bundle import Bundle
    from rigops.probe.section import Section
    from rigops.transport import Connection, Privilege

Facts = TypeVar("Facts")

ALWAYS: Final = (
    boot.SECTION,
    nvidia_version.SECTION,
    os_release.SECTION,
    proc_cmdline.SECTION,
    rigops_state.SECTION,
    roots.SECTION,
    uname.SECTION,
    SILICON,
)
_FACTS: Final = (Boot, CommandLine, DriverLoaded, OsRelease, RigopsState, Uname)


_SUDO: Final = "command -v sudo >/dev/null && LC_ALL=C sudo -n -- sh -c : </dev/null 2>&1"
_SUDO_S: Final = 20.0


@dataclass(frozen=True, kw_only=True)
class RunSnapshot:
    """None is what could not be read, or was not asked."""

    boot: boot.Boot | None
    bootloader: bootloader.Bootloader | None
    command_line: proc_cmdline.CommandLine | None
    driver: nvidia_version.NvidiaVersion | None
    root: roots.RootFacts | None
    silicon: Silicon | None
    state: rigops_state.RigopsState | None
    system: os_release.OsRelease | None
    uname: uname.Uname | None
    known: Sequence[tuple[type[FactBase[Any]], object]]
    paths: tuple[str, ...]
    files: Mapping[str, FileFound]
    lost: LostCards = LostCards()

    @property
    def versions(self) -> dict[str, str]:
        found = {
            "driver": self.driver.version if self.driver else None,
            "kernel": self.uname.release if self.uname else None,
        }
        return {name: version for name, version in found.items() if version}


def take_snapshot(
    connection: Connection, privilege: Privilege, concerns: Iterable[Concern], spec: RigSpec
) -> RunSnapshot:
    host = connection.name
    selected = tuple(concerns)
    paths = tuple(path for one in selected for path in one.files(spec))
    files: Section[Mapping[str, FileFound]] = files_section(paths)
    facts = [fact for one in selected for fact in one.facts(spec)]
    sections: list[Section[Any]] = [*ALWAYS, *(fact.section for fact in facts)]
    if paths:
        sections.append(files)
    as_root = privilege if privilege.kind == "password" else None
    bundle = collect(connection, sections, host=host, as_root=as_root).bundle
    if not bundle.root:
        said = connection.run(["sh", "-c", _SUDO], deadline_s=_SUDO_S)
        raise NoRootError(host, clean(said.stdout))
    found, silicon = _read(bundle, files), _read(bundle, SILICON)
    lost = LostCards()
    if silicon is not None and silicon.has_gone:
        again = collect(connection, lost_cards.SECTIONS, host=host, as_root=as_root).bundle
        lost = LostCards(tuple(lost_cards.lost_cards(HostSnapshot(again)).values()))
    return RunSnapshot(
        boot=_read(bundle, boot.SECTION),
        bootloader=_read(bundle, bootloader.SECTION),
        command_line=_read(bundle, proc_cmdline.SECTION),
        driver=_read(bundle, nvidia_version.SECTION),
        root=_read(bundle, roots.SECTION),
        silicon=silicon,
        state=_read(bundle, rigops_state.SECTION),
        system=_read(bundle, os_release.SECTION),
        uname=_read(bundle, uname.SECTION),
        known=seen(bundle, (*_FACTS, *facts)),
        paths=paths if found is not None else (),
        files=found or {},
        lost=lost,
    )


def _read(bundle: Bundle, section: Section[Facts]) -> Facts | None:
    """Half an answer is none: what it does not name may be there all the same."""
    answer = bundle.sections.get(section.name)
    return section.parse(answer.text) if answer is not None and answer.is_complete else None
