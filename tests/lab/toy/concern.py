"""toy_level: a file, a unit, a live value, and something that only a reboot brings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.concern import Concern
from rigops.inventory.spec import Key
from rigops.inventory.spec.scalars import whole_number
from rigops.probe.section import Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rigops.facts.sections import SectionFact
    from rigops.inventory.spec import RigSpec

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


TOY: Final = Concern(
    name=NAME,
    keys=(LEVEL,),
    deploy=_deploy,
    deploy_file=Path(__file__).with_name("toy.py"),
    facts=_facts,
    reboot_reasons=_reboot_reasons,
)
