"""Redirection by the ports between a host's GPUs, as reported by the host-side program."""

from __future__ import annotations

import re
from typing import Final

from rigops.dataclass import dataclass
from rigops.facts.sections import SectionFact
from rigops.hostside.packing import pack
from rigops.probe.section import Section
from rigops.probe.text import single

PROGRAM: Final = "acs"  # the host-side program that finds the ports, clears them and restores them

_REDIRECTING: Final = 0x2C  # ReqRedir, CmpltRedir, EgressCtrl
_PORT = re.compile(
    r"(?P<kind>port|apart) (?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) "
    r"(?P<word>[0-9a-f]{4}|none|unreadable) ?(?P<earlier>[0-9a-f]{4})?"
)
_GPUS = re.compile(r"gpus ([0-9]{1,4})")


@dataclass(frozen=True, kw_only=True)
class Port:
    """Its control word, and the one before rigops cleared it in this boot; None: no ACS there."""

    address: str
    word: int | None
    earlier: int | None = None
    is_between: bool = True  # of two cards; else it was, when rigops cleared it
    is_readable: bool = True

    @property
    def redirects(self) -> bool:
        return bool((self.word or 0) & _REDIRECTING)

    @property
    def cleared(self) -> int:
        return (self.word or 0) & ~_REDIRECTING

    @property
    def restored(self) -> int:
        return (self.word or 0) | ((self.earlier or 0) & _REDIRECTING)


@dataclass(frozen=True, kw_only=True)
class AcsPorts:
    gpus: int | None = None  # None: not reported
    ports: tuple[Port, ...] = ()
    is_locked_down: bool = False  # no program may write to any port
    unparsed: tuple[str, ...] = ()

    @property
    def between(self) -> tuple[Port, ...]:
        return tuple(one for one in self.ports if one.is_between)

    @property
    def redirecting(self) -> tuple[Port, ...]:
        return tuple(one for one in self.between if one.redirects)

    @property
    def to_restore(self) -> tuple[Port, ...]:
        known = [one for one in self.ports if one.word is not None]
        return tuple(one for one in known if one.restored != one.word)


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
