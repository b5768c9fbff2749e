"""The Python that a host has for the guard."""

from __future__ import annotations

import re
from typing import Final

from rigops.dataclass import dataclass
from rigops.facts.sections import SectionFact
from rigops.probe.section import Section
from rigops.probe.text import single

PYTHON: Final = "/usr/bin/python3"  # as the first line of the program has it

_VERSION = re.compile(r"python ([0-9]{1,3})\.([0-9]{1,3})")


@dataclass(frozen=True, kw_only=True)
class HostPython:
    """`version`: empty where there is none."""

    version: tuple[int, ...] = ()
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> HostPython:
    found = [line for line in map(str.strip, single(text)) if line]
    matched = [match for line in found if (match := _VERSION.fullmatch(line))]
    return HostPython(
        version=tuple(int(one) for one in matched[0].groups()) if matched else (),
        unparsed=tuple(line for line in found if not _VERSION.fullmatch(line)),
    )


SECTION = Section(
    name="thermal-guard",
    snippet=f"""
[ ! -x {PYTHON} ] || {PYTHON} -I -c 'import sys
print("python %d.%d" % sys.version_info[:2])'
return 0
""",
    parse=parse,
)


class PythonFact(SectionFact[HostPython]):
    section = SECTION
