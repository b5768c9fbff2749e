"""The kernel arguments of the next boot, and how to get iommu=pt among them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rigops.concerns.kernel_args.bootloader import entries, grub
from rigops.concerns.kernel_args.bootloader.choice import Blocker, configuration_of
from rigops.concerns.kernel_args.bootloader.grub import Defaults, DropIns
from rigops.concerns.kernel_args.bootloader.unified import Mkinitcpio
from rigops.concerns.kernel_args.kernel_line import INTEL_ON, leaves_intel_off
from rigops.dataclass import dataclass
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Fix, fix_by_hand
from rigops.doctor.views import board
from rigops.probe.boot_files import KERNEL_CMDLINE
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.bootloader import Bootloader
from rigops.probe.sections.proc_cmdline import SECTION as PROC_CMDLINE
from rigops.probe.sections.rigops_state import ARGUMENTS
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE
from rigops.probe.snapshot import HostSnapshot
from rigops.record.kernel_arguments import read_arguments

_WANTED = "iommu=pt"
_PASSTHROUGH = frozenset({_WANTED, "iommu.passthrough=1", "iommu.passthrough=on"})


@dataclass(frozen=True)
class NextBoot:
    """The arguments of the next boot, as far as they can be read."""

    arguments: frozenset[str]
    place: str
    line: str
    is_complete: bool = True  # an argument that is not among them will not be there
    counts: bool = False  # what boots, and not what it is made from


def of_next_boot(snapshot: HostSnapshot) -> NextBoot | None:
    bootloader = snapshot[BOOTLOADER].value
    found = configured(bootloader) if bootloader else None
    return found and replace(found, is_complete=snapshot[BOOTLOADER].is_complete)


def configured(boots: Bootloader) -> NextBoot | None:
    """The boot menu counts, where it can be read; else the files that it is made from."""
    if boots.menu:
        entry = boots.menu[0]
        return NextBoot(frozenset(entry.arguments), boots.menu_path, entry.line, counts=True)
    chosen = configuration_of(boots)
    if not isinstance(chosen, Blocker | DropIns | Defaults):
        found = entries.normal(boots.texts) if not isinstance(chosen, Mkinitcpio) else ()
        place, line = KERNEL_CMDLINE, boots.texts.get(KERNEL_CMDLINE, KERNEL_CMDLINE).strip()
        if found:
            place, line = found[-1].path, found[-1].line
        arguments = frozenset(chosen.arguments(boots.texts))
        return NextBoot(arguments, place, line, counts=bool(found))
    if grub.DEFAULTS not in boots.files and grub.DROP_IN not in boots.files:
        return None
    own = grub.added_arguments(boots.files.get(grub.DROP_IN, ""))
    others = grub.foreign_arguments(boots.files)
    place = grub.DROP_IN if own else grub.DEFAULTS
    lines = boots.files.get(place, "").splitlines()
    line = next((one for one in lines if one.startswith("GRUB_CMDLINE_LINUX")), place)
    return NextBoot(frozenset((*own, *others)), place, line)


def not_in_files(snapshot: HostSnapshot, declared: Iterable[str]) -> list[str]:
    """Those that the menu of GRUB may have, and the files that it is made from have not."""
    boots = snapshot[BOOTLOADER].value
    if boots is None or not snapshot[BOOTLOADER].is_complete:
        return []
    if not isinstance(configuration_of(boots), DropIns | Defaults):
        return []
    own = grub.added_arguments(boots.files.get(grub.DROP_IN, ""))
    filed = {*own, *grub.foreign_arguments(boots.files)}
    return [one for one in declared if one not in filed]


def record(snapshot: HostSnapshot) -> str:
    """Rigops' record of kernel arguments, as text."""
    return snapshot[RIGOPS_STATE].or_empty.records.get(ARGUMENTS, "")


def trying(snapshot: HostSnapshot) -> frozenset[str]:
    """Arguments that become permanent once one boot has tried them."""
    return frozenset(read_arguments(record(snapshot) or None).trying)


def is_asked_for(snapshot: HostSnapshot) -> bool:
    """On the running command line; another argument may override it."""
    return bool(_PASSTHROUGH & set(snapshot[PROC_CMDLINE].or_empty.arguments))


def passthrough_fix(examined: Examined) -> Fix:
    snapshot, declared = examined.snapshot, examined.spec.kernel_args or ()
    if is_asked_for(snapshot):
        return fix_by_hand(
            "iommu=pt is on the running command line and something overrides it: look there "
            "for iommu=nopt, iommu.passthrough=0 or a hypervisor"
        )
    is_declared = bool(_PASSTHROUGH & set(declared))
    arguments = list(declared) if is_declared else [*declared, _WANTED]
    has_intel_on = INTEL_ON in snapshot[PROC_CMDLINE].or_empty.arguments
    if has_intel_on and leaves_intel_off(board.firmware(snapshot)) and INTEL_ON not in arguments:
        arguments = [INTEL_ON, *arguments]
    following = of_next_boot(snapshot)
    place = following.place if following and _PASSTHROUGH & following.arguments else ""
    if _PASSTHROUGH & trying(snapshot):
        text = "only the reboot is missing, which `rigops apply` does to try iommu=pt first"
        instead = text
    elif place:
        text = f"iommu=pt is configured ({place}): only the reboot is missing"
        instead = f"{text}, `systemctl reboot`"
    else:
        text = "`rigops apply` adds iommu=pt to the kernel command line and reboots"
        bootloader = snapshot[BOOTLOADER].value
        chosen = configuration_of(bootloader) if bootloader else Blocker("it was not read")
        instead = chosen.by_hand((_WANTED,))
    return Fix(
        kind="apply+reboot",
        concern="kernel_args",
        declare={"kernel_args": arguments},
        text=text,
        by_hand=instead,
    )
