"""Whether the ports between the cards redirect as declared. Pure.

A port is as the program on the host prints it, or as lspci does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rigops.concerns.state import AS_DECLARED, DIFFERS, LEFT_OVER, NOT_HERE, REFUSED, State, Status
from rigops.dataclass import dataclass

CHECK: Final = "acs.path"
RECORD: Final = "/var/lib/rigops/acs.json"
SCHEMA: Final = "rigops.acs/1"

_BITS: Final = (
    "SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans",
)  # fmt: skip
_REDIRECTING: Final = 0x2C  # ReqRedir, CmpltRedir, EgressCtrl


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


def judge_ports(redirect: str | None, found: AcsPorts, machine: str) -> list[State]:
    """`redirect`: as declared. `machine`: which kind of virtual machine it is, if it is one."""
    if redirect != "off":
        return list(_left_over(found))
    if reason := _blocker(found, machine):
        return [State(CHECK, "host", "ACS redirection", "off", "", REFUSED, reason)]
    if reason := _nothing_to_clear(found):
        return [State(CHECK, "host", "ACS redirection", "off", "", NOT_HERE, reason)]
    return [
        _state(port, port.word, port.cleared, DIFFERS if port.redirects else AS_DECLARED)
        for port in found.between
        if port.word is not None
    ]


def _left_over(found: AcsPorts) -> Iterator[State]:
    for port in found.ports:
        if port.word is not None and port.restored != port.word:
            yield _state(port, port.word, port.restored, LEFT_OVER)


def _state(port: Port, now: int, wanted: int, status: Status) -> State:
    return State(CHECK, "host", f"port {port.address}", control(wanted), control(now), status)


def control(word: int) -> str:
    """As lspci names the bits: ACSCtl 001d (SrcValid, ReqRedir, CmpltRedir, UpstreamFwd)."""
    bits = ", ".join(name for at, name in enumerate(_BITS) if word >> at & 1)
    return f"ACSCtl {word:04x} ({bits or 'nothing set'})"


def word_of(bits: frozenset[str]) -> int:
    return sum(1 << at for at, name in enumerate(_BITS) if name in bits)


def _blocker(acs: AcsPorts, virtual_machine: str) -> str:
    if virtual_machine:
        return (
            f"this is a virtual machine ({virtual_machine}), which does not see the real ports: "
            "clear ACS redirection on the machine that runs it"
        )
    if acs.gpus is None or acs.unparsed:
        return "the ports between the cards could not be read"
    if dark := [one.address for one in acs.between if not one.is_readable]:
        return (
            f"the extended configuration of {', '.join(dark)} cannot be read: take pci=nommconf "
            "off the kernel's command line, if it is there"
        )
    redirecting = [one.address for one in acs.between if one.redirects]
    return _locked_down(redirecting) if acs.is_locked_down and redirecting else ""


def _locked_down(ports: Sequence[str]) -> str:
    argument = f"pci=disable_acs_redir={';'.join(ports)}"
    if len(ports) == 1:
        fix = f'declare "kernel_args": ["{argument}"]'
    else:
        fix = (
            f"write {argument} into the bootloader's configuration by hand, in quotes for GRUB "
            "(kernel_args takes no semicolon)"
        )
    return (
        f"the kernel is locked down, as with Secure Boot, and refuses writes to "
        f"{', '.join(ports)}: {fix}, or switch ACS off in the BIOS"
    )


def _nothing_to_clear(acs: AcsPorts) -> str:
    if (acs.gpus or 0) < 2:  # noqa: PLR2004 - a card alone has no peer
        return "acs_redirect: nothing to do, this host has fewer than two NVIDIA GPUs"
    if all(one.word is None for one in acs.between):
        return "acs_redirect: nothing to do, no port between the cards has ACS"
    return ""
