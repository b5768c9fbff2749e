"""ACS redirection between GPUs: what blocks clearing it, and how a person reads a port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rigops.concerns.preconditions.firmware import in_the_bios

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.concerns.acs.facts import AcsPorts
    from rigops.probe.sections.firmware import Firmware

_BITS: Final = (
    "SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans",
)  # fmt: skip


def control(word: int) -> str:
    """As lspci names the bits: ACSCtl 001d (SrcValid, ReqRedir, CmpltRedir, UpstreamFwd)."""
    bits = ", ".join(name for at, name in enumerate(_BITS) if word >> at & 1)
    return f"ACSCtl {word:04x} ({bits or 'nothing set'})"


def blocker(acs: AcsPorts, virtual_machine: str) -> str:
    """Why nothing can be cleared here, or nothing. `virtual_machine`: its kind, if it is one."""
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
    if acs.is_locked_down and (found := acs.redirecting):
        return locked_down(tuple(one.address for one in found))
    return ""


def locked_down(ports: Sequence[str]) -> str:
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


def nothing_to_clear(acs: AcsPorts) -> str:
    """Why nothing is to be done for the declaration, or nothing."""
    if (acs.gpus or 0) < 2:  # noqa: PLR2004 - a card alone has no peer
        return "acs_redirect: nothing to do, this host has fewer than two NVIDIA GPUs"
    if all(one.word is None for one in acs.between):
        return "acs_redirect: nothing to do, no port between the cards has ACS"
    return ""


def firmware_step(catalog: Catalog, firmware: Firmware | None) -> str:
    return (
        "rigops clears these bits at every boot; some boards have a setting for it besides: "
        f"{in_the_bios(catalog, firmware, 'acs', turn='off')}"
    )
