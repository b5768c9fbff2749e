"""ACS redirection on the ports between a host's GPUs: what is set, and what stands in the way."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rigops.hostside.packing import pack
from rigops.probe.section import Section
from rigops.probe.text import single

PROGRAM: Final = "acs"  # the host-side program that finds the ports, clears them and puts them back

_BITS: Final = (
    "SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans",
)  # fmt: skip
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
    def put_back(self) -> int:
        return (self.word or 0) | ((self.earlier or 0) & _REDIRECTING)


@dataclass(frozen=True, kw_only=True)
class Acs:
    gpus: int | None = None  # None: nobody said
    ports: tuple[Port, ...] = ()
    is_locked_down: bool = False  # nobody may write to any port
    unread: tuple[str, ...] = ()

    @property
    def between(self) -> tuple[Port, ...]:
        return tuple(one for one in self.ports if one.is_between)

    @property
    def redirecting(self) -> tuple[Port, ...]:
        return tuple(one for one in self.between if one.redirects)

    @property
    def to_put_back(self) -> tuple[Port, ...]:
        known = [one for one in self.ports if one.word is not None]
        return tuple(one for one in known if one.put_back != one.word)


def parse(text: str) -> Acs:
    gpus: int | None = None
    ports: list[Port] = []
    unread: list[str] = []
    is_locked_down = False
    for line in filter(None, map(str.strip, single(text))):
        if count := _GPUS.fullmatch(line):
            gpus = int(count[1])
        elif line == "lockdown":
            is_locked_down = True
        elif shape := _PORT.fullmatch(line):
            ports.append(_port(shape))
        else:
            unread.append(line)
    return Acs(gpus=gpus, ports=tuple(ports), is_locked_down=is_locked_down, unread=tuple(unread))


def _port(shape: re.Match[str]) -> Port:
    word, earlier = shape["word"], shape["earlier"]
    return Port(
        address=shape["address"],
        word=None if word in {"none", "unreadable"} else int(word, 16),
        earlier=int(earlier, 16) if earlier else None,
        is_between=shape["kind"] == "port",
        is_readable=word != "unreadable",
    )


def control(word: int) -> str:
    """As lspci names the bits: ACSCtl 001d (SrcValid, ReqRedir, CmpltRedir, UpstreamFwd)."""
    bits = ", ".join(name for at, name in enumerate(_BITS) if word >> at & 1)
    return f"ACSCtl {word:04x} ({bits or 'nothing set'})"


def obstacle(acs: Acs, virtual_machine: str) -> str:
    """Why nothing can be cleared here, or nothing. `virtual_machine`: its kind, if it is one."""
    if virtual_machine:
        return (
            f"this is a virtual machine ({virtual_machine}), which does not see the real ports: "
            "what redirects is to be cleared on the machine that runs it"
        )
    if acs.gpus is None or acs.unread:
        return "which ports stand between the cards could not be read"
    if dark := [one.address for one in acs.between if not one.is_readable]:
        return (
            f"the extended configuration of {', '.join(dark)} cannot be read: take pci=nommconf "
            "off the kernel's command line, if it is there"
        )
    if acs.is_locked_down and (found := acs.redirecting):
        return _locked_down(tuple(one.address for one in found))
    return ""


def _locked_down(ports: tuple[str, ...]) -> str:
    argument = f"pci=disable_acs_redir={';'.join(ports)}"
    if len(ports) == 1:
        cure = f'declare kernel_args = ["{argument}"]'
    else:
        cure = (
            f"write {argument} into the bootloader's configuration by hand, in quotes for GRUB "
            "(kernel_args takes no semicolon)"
        )
    return (
        f"the kernel is locked down, as it is with Secure Boot, and lets nobody write to "
        f"{', '.join(ports)}: {cure}, or switch ACS off in the BIOS"
    )


def nothing_to_clear(acs: Acs) -> str:
    """Why nothing is to be done for the declaration, or nothing."""
    if (acs.gpus or 0) < 2:  # noqa: PLR2004 - a card alone has no peer
        return "acs_redirect: nothing is to be done, there are no two NVIDIA GPUs here"
    if all(one.word is None for one in acs.between):
        return "acs_redirect: nothing is to be done, no port between the cards has ACS"
    return ""


SECTION = Section(
    name="acs", snippet=f"set -- show\n{pack(PROGRAM).text}", parse=parse, wants_root=True
)
