"""The snapshot of a host that a run of plan or apply needs, and its cards. One exec.

Only these sections, and not doctor's facts of everything: a converged host costs little more than
the login.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pyinfra.api.facts import FactBase

from rigops.concerns.concern import Concern
from rigops.concerns.preconditions import root as roots
from rigops.converge.engine import seen
from rigops.converge.errors import NoRootError
from rigops.dataclass import dataclass
from rigops.facts.files import FileFound, files_section
from rigops.facts.sections import (
    Boot,
    CommandLine,
    DriverLoaded,
    OsRelease,
    OwnModules,
    RigopsState,
    Uname,
)
from rigops.inventory.spec import RigSpec
from rigops.probe import address, lost_cards
from rigops.probe.bundle import Bundle
from rigops.probe.collect import collect
from rigops.probe.lost_cards import LostCards
from rigops.probe.section import Section
from rigops.probe.sections import (
    boot,
    nvidia_version,
    os_release,
    own_modules,
    proc_cmdline,
    rigops_state,
    uname,
)
from rigops.probe.snapshot import HostSnapshot
from rigops.probe.text import blocks
from rigops.record import Bios, ProvenGpu
from rigops.record.trial_boot import MARK
from rigops.transport import Connection, Privilege
from rigops.transport.errors import clean

Facts = TypeVar("Facts")

_BIOS: Final = "/sys/class/dmi/id/bios_"
_DRIVEN: Final = "/proc/driver/nvidia/gpus/"
_ON_BUS: Final = "/sys/bus/pci/devices/"
_ALL_BITS: Final = "63"  # lanes of a card that answers nothing
_CARD_FIELD = re.compile(r"(?P<name>[A-Za-z ]{1,30}):\s*(?P<value>.*)")


@dataclass(frozen=True)
class Silicon:
    """The cards as their driver names them, and the firmware: what a proof is about."""

    bios: Bios
    gpus: tuple[ProvenGpu, ...]
    has_cards: bool  # of NVIDIA's, with a driver or without
    has_gone: bool = False  # one of them answers nothing on the bus, unless it sleeps


def _parse_silicon(text: str) -> Silicon:
    found = blocks(text)
    cards = [_card(body) for head, body in found.items() if head.startswith(_DRIVEN)]
    lanes = [body.strip() for head, body in found.items() if head.startswith(_ON_BUS)]
    return Silicon(
        bios=Bios(
            found.get(f"{_BIOS}vendor", "").strip(), found.get(f"{_BIOS}version", "").strip()
        ),
        gpus=tuple(sorted(filter(None, cards), key=lambda card: card.address)),
        has_cards=bool(lanes or cards),
        has_gone=_ALL_BITS in lanes,
    )


def _card(body: str) -> ProvenGpu | None:
    shapes = map(_CARD_FIELD.fullmatch, body.splitlines())
    fields = {shape["name"].strip(): shape["value"].strip() for shape in shapes if shape}
    place = address.normal(fields.get("Bus Location", ""))
    uuid = fields.get("GPU UUID", "")
    return ProvenGpu(uuid, place, fields.get("Model", ""), None) if place and uuid else None


SILICON: Final = Section(
    name="silicon",
    snippet=f"""
show {_BIOS}vendor {_BIOS}version {_DRIVEN}*/information
for function in {_ON_BUS}*; do
    read -r vendor <"$function/vendor" && read -r class <"$function/class" || continue
    case "$vendor $class" in "0x10de 0x03"*) ;; *) continue ;; esac
    block "$function"
    cat "$function/current_link_width"
done 2>/dev/null
return 0
""",
    parse=_parse_silicon,
    lane="files",
)


ALWAYS: Final = (
    boot.SECTION,
    nvidia_version.SECTION,
    os_release.SECTION,
    own_modules.SECTION,
    proc_cmdline.SECTION,
    rigops_state.SECTION,
    roots.SECTION,
    uname.SECTION,
    SILICON,
)
_FACTS: Final = (Boot, CommandLine, DriverLoaded, OsRelease, OwnModules, RigopsState, Uname)


_SUDO: Final = "command -v sudo >/dev/null && LC_ALL=C sudo -n -- sh -c : </dev/null 2>&1"
_SUDO_S: Final = 20.0


@dataclass(frozen=True, kw_only=True)
class RunSnapshot:
    """None is what could not be read, or was not asked."""

    boot: boot.Boot | None
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
    modules: own_modules.OwnModules | None = None

    @property
    def versions(self) -> dict[str, str]:
        found = {
            "driver": self.driver.version if self.driver else None,
            "kernel": self.uname.release if self.uname else None,
        }
        return {name: version for name, version in found.items() if version}

    @property
    def cards(self) -> tuple[str, ...]:
        """The addresses of those that the driver names."""
        return tuple(sorted(card.address for card in self.silicon.gpus)) if self.silicon else ()

    @property
    def is_trial(self) -> bool:
        """Whether its boot tries kernel arguments."""
        return self.command_line is not None and MARK in self.command_line.arguments


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
        modules=_read(bundle, own_modules.SECTION),
    )


def _read(bundle: Bundle, section: Section[Facts]) -> Facts | None:
    """Half an answer is none: what it does not name may be there all the same."""
    answer = bundle.sections.get(section.name)
    return section.parse(answer.text) if answer is not None and answer.is_complete else None
