"""iommu=pt: whether it is live, and how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.bootloader.choice import Refused
from rigops.doctor.finding import Remedy
from rigops.doctor.rig import board, next_arguments
from rigops.guarding.iommu import INTEL_ON, leaves_intel_off

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
    if _needs_intel_on(facts) and INTEL_ON not in arguments:
        arguments = [INTEL_ON, *arguments]
    place = _configured(facts)
    if _PASSTHROUGH & next_arguments.trying(facts):
        text = "only the reboot is missing, which `rigops apply` does to try iommu=pt first"
        by_hand = text
    elif place:
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


def _needs_intel_on(facts: HostFacts) -> bool:
    """The IOMMU is wanted, and this kernel has it only because it was told to."""
    live = facts.proc_cmdline.arguments if facts.proc_cmdline else ()
    return INTEL_ON in live and leaves_intel_off(board.firmware(facts))


def _configured(facts: HostFacts) -> str:
    """Where the next boot gets the argument from, or nothing. What boots counts, if readable."""
    following = next_arguments.of(facts)
    return following.place if following and _PASSTHROUGH & following.arguments else ""


def _by_hand(bootloader: Bootloader | None) -> str:
    chosen = bootloader.configuration if bootloader else Refused("it was not read")
    return chosen.by_hand((WANTED,))
