"""Redirection by the ports between a host's GPUs, as reported by the host-side program."""

from __future__ import annotations

import re
from typing import Final

from rigops.concerns.acs.state import AcsPorts, Port
from rigops.facts.sections import SectionFact
from rigops.hostside.packing import pack
from rigops.probe.section import Section
from rigops.probe.text import single

PROGRAM: Final = "acs"  # the host-side program that finds the ports, clears them and restores them

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
    name="acs", snippet=f"set -- show\n{pack(PROGRAM).text}", parse=parse, wants_root=True
)


class Acs(SectionFact[AcsPorts]):
    section = SECTION
