"""iommu=pt: whether it is live, and how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.concerns.kernel_args.bootloader.choice import Refused, configuration_of
from rigops.concerns.kernel_args.iommu import INTEL_ON, leaves_intel_off
from rigops.doctor.finding import Fix
from rigops.doctor.views import board, next_arguments
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE

if TYPE_CHECKING:
    from rigops.doctor.check import Examined
    from rigops.probe.sections.bootloader import Bootloader
    from rigops.probe.snapshot import HostSnapshot

CONCERN = "kernel_args"
WANTED = "iommu=pt"

_PASSTHROUGH = frozenset({WANTED, "iommu.passthrough=1", "iommu.passthrough=on"})


def is_asked_for(snapshot: HostSnapshot) -> bool:
    """On the running command line; another argument may outweigh it."""
    return bool(_PASSTHROUGH & set(snapshot[PROC_CMDLINE].or_empty.arguments))


def fix(examined: Examined) -> Fix:
    snapshot, declared = examined.snapshot, examined.spec.kernel_args or ()
    if is_asked_for(snapshot):
        return Fix(
            kind="hands",
            text="iommu=pt is on the running command line and something outweighs it: look there "
            "for iommu=nopt, iommu.passthrough=0 or a hypervisor",
        )
    is_declared = bool(_PASSTHROUGH & set(declared))
    arguments = list(declared) if is_declared else [*declared, WANTED]
    if _needs_intel_on(snapshot) and INTEL_ON not in arguments:
        arguments = [INTEL_ON, *arguments]
    place = _configured(snapshot)
    if _PASSTHROUGH & next_arguments.trying(snapshot):
        text = "only the reboot is missing, which `rigops apply` does to try iommu=pt first"
        by_hand = text
    elif place:
        text = f"iommu=pt is configured ({place}): only the reboot is missing"
        by_hand = f"{text}, `systemctl reboot`"
    else:
        text = "`rigops apply` adds iommu=pt to the kernel command line and reboots"
        by_hand = _by_hand(snapshot[BOOTLOADER].value)
    return Fix(
        kind="apply+reboot",
        concern=CONCERN,
        declare={"kernel_args": arguments},
        text=text,
        by_hand=by_hand,
    )


def _needs_intel_on(snapshot: HostSnapshot) -> bool:
    """The IOMMU is wanted, and this kernel has it only because it was told to."""
    live = snapshot[PROC_CMDLINE].or_empty.arguments
    return INTEL_ON in live and leaves_intel_off(board.firmware(snapshot))


def _configured(snapshot: HostSnapshot) -> str:
    """Where the next boot gets the argument from, or nothing. What boots counts, if readable."""
    following = next_arguments.of(snapshot)
    return following.place if following and _PASSTHROUGH & following.arguments else ""


def _by_hand(bootloader: Bootloader | None) -> str:
    chosen = configuration_of(bootloader) if bootloader else Refused("it was not read")
    return chosen.by_hand((WANTED,))
