"""iommu=pt: whether it is live, and how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.bootloader import grub
from rigops.bootloader.arguments import split
from rigops.doctor.finding import Remedy

if TYPE_CHECKING:
    from rigops.doctor.check import Examined
    from rigops.probe.facts import HostFacts
    from rigops.probe.sections.bootloader import Bootloader

CONCERN = "kernel_args"
WANTED = "iommu=pt"

_PASSTHROUGH = frozenset({WANTED, "iommu.passthrough=1", "iommu.passthrough=on"})


def is_asked_for(facts: HostFacts) -> bool:
    """On the running command line; another argument may outweigh it."""
    return bool(_PASSTHROUGH & set(facts.proc_cmdline.arguments if facts.proc_cmdline else ()))


def remedy(examined: Examined) -> Remedy:
    facts, declared = examined.facts, examined.spec.kernel_args or ()
    if is_asked_for(facts):
        return Remedy(
            kind="hands",
            text="iommu=pt is on the running command line and something outweighs it: look there "
            "for iommu=nopt, iommu.passthrough=0 or a hypervisor",
        )
    is_declared = bool(_PASSTHROUGH & set(declared))
    arguments = list(declared) if is_declared else [*declared, WANTED]
    place = _configured(facts.bootloader)
    if place:
        text = f"iommu=pt is configured ({place}): only the reboot is missing"
        by_hand = f"{text}, `systemctl reboot`"
    else:
        text = "`rigops apply` adds iommu=pt to the kernel command line and reboots"
        by_hand = _by_hand(facts.bootloader)
    return Remedy(
        kind="apply+reboot",
        concern=CONCERN,
        declare={"kernel_args": arguments},
        text=text,
        by_hand=by_hand,
    )


def _configured(bootloader: Bootloader | None) -> str:
    """Where the next boot gets the argument from, or nothing. What boots counts, if readable."""
    if bootloader is None:
        return ""
    if bootloader.menu:
        return "/boot/grub/grub.cfg" if _PASSTHROUGH & set(bootloader.menu[0].arguments) else ""
    own = split(bootloader.files.get(grub.DROP_IN, "").replace('"', " "))
    if _PASSTHROUGH & set(own):
        return grub.DROP_IN
    return grub.DEFAULTS if _PASSTHROUGH & set(grub.foreign_arguments(bootloader.files)) else ""


def _by_hand(bootloader: Bootloader | None) -> str:
    if bootloader is not None and bootloader.has_grub:
        return (
            f"add {WANTED} to GRUB_CMDLINE_LINUX_DEFAULT in {grub.DEFAULTS}, run `update-grub` "
            "(elsewhere `grub-mkconfig -o /boot/grub/grub.cfg`) and reboot"
        )
    return f"add {WANTED} to the kernel command line in the bootloader's configuration, and reboot"
