"""What rigops changed of the CPU policies in this boot, as the host-side program reports it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from rigops.dataclass import dataclass
from rigops.facts.sections import SectionFact
from rigops.hostside.packing import pack
from rigops.probe.section import Section
from rigops.probe.text import single

PROGRAM: Final = "cpu_tuning"  # the host-side program that sets the policies and restores them

_WAS = re.compile(r"was policy(?P<number>[0-9]{1,5}) (?P<governor>[a-z_-]+) (?P<khz>[0-9]{1,9}|-)")
_LOADABLE = re.compile(r"loadable ([a-z_]+)")


@dataclass(frozen=True)
class Before:
    """What a policy had before rigops changed it; None: rigops did not change that."""

    governor: str | None
    khz: int | None


@dataclass(frozen=True, kw_only=True)
class CpuTuned:
    """`loadable`: governors of which the running kernel has a module."""

    was: Mapping[int, Before] = field(default_factory=dict)  # by the number of the policy
    loadable: frozenset[str] = frozenset()
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> CpuTuned:
    was: dict[int, Before] = {}
    loadable: set[str] = set()
    unparsed: list[str] = []
    for line in filter(None, map(str.strip, single(text))):
        if shape := _WAS.fullmatch(line):
            governor, khz = shape["governor"], shape["khz"]
            was[int(shape["number"])] = Before(
                None if governor == "-" else governor, None if khz == "-" else int(khz)
            )
        elif module := _LOADABLE.fullmatch(line):
            loadable.add(module[1])
        else:
            unparsed.append(line)
    return CpuTuned(was=was, loadable=frozenset(loadable), unparsed=tuple(unparsed))


SECTION = Section(name="cpu-tuning", snippet=f"set -- show\n{pack(PROGRAM).text}", parse=parse)


class CpuTuning(SectionFact[CpuTuned]):
    section = SECTION
