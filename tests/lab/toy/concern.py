"""toy_level: a file, a unit, a live value, and something that only a reboot brings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.concern import Concern, States
from rigops.concerns.state import AS_DECLARED, DIFFERS, UNKNOWN, State
from rigops.inventory.spec import Key
from rigops.inventory.spec.scalars import whole_number
from rigops.probe.section import Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rigops.catalog import Catalog
    from rigops.facts.sections import SectionFact
    from rigops.inventory.spec import RigSpec
    from rigops.probe.snapshot import HostSnapshot

NAME: Final = "toy"
FILE: Final = "/etc/toy.conf"
UNIT: Final = "rigops-toy.service"
LIVE: Final = "/run/toy-level"
BOOTED: Final = "/run/toy-booted"
LEVEL: Final = Key("toy_level", "1 to 9", whole_number(1, 9, ""))


@dataclass(frozen=True)
class Toy:
    live: str = ""
    booted: str = ""


def _parse(text: str) -> Toy:
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return Toy(found.get("live", ""), found.get("booted", ""))


SECTION: Final = Section(
    name="toy",
    snippet=f'echo "live=$(cat {LIVE} 2>/dev/null)"; echo "booted=$(cat {BOOTED} 2>/dev/null)"',
    parse=_parse,
)


def _facts(_: RigSpec) -> Sequence[type[SectionFact[Any]]]:
    from tests.lab.toy.operations import ToyFact  # noqa: PLC0415 - pyinfra

    return (ToyFact,)


def _deploy(spec: RigSpec) -> None:
    from tests.lab.toy.operations import toy  # noqa: PLC0415 - pyinfra

    toy(spec[LEVEL])


def _reboot_reasons(spec: RigSpec) -> Iterator[str]:
    from tests.lab.toy.operations import booted_with  # noqa: PLC0415 - pyinfra

    level = spec[LEVEL]
    if level is not None and booted_with() != str(level):
        yield f"this boot did not begin with level {level}"


def judge(level: int | None, live: str) -> list[State]:
    if level is None:
        return []
    state = State("toy.level", "host", "the live level", str(level), live, DIFFERS)
    return [state._replace(status=AS_DECLARED) if live == str(level) else state]


def _states(spec: RigSpec, snapshot: HostSnapshot, _: Catalog) -> Sequence[State]:
    found = snapshot[SECTION].value
    if found is None:
        return [State("toy.level", "host", "the live level", "", "", UNKNOWN, "not collected")]
    return judge(spec[LEVEL], found.live)


TOY: Final = Concern(
    name=NAME,
    keys=(LEVEL,),
    deploy=_deploy,
    deploy_file=Path(__file__).with_name("toy.py"),
    facts=_facts,
    states=States(
        needs=lambda: (SECTION,),
        judge=_states,
        checks={"toy.level": "The toy has its level.\n\nCompares it with `toy_level`."},
    ),
    reboot_reasons=_reboot_reasons,
)
