"""What the next boot is configured to have, whichever bootloader starts it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rigops.concerns.kernel_args.bootloader import entries, grub
from rigops.concerns.kernel_args.bootloader.choice import Refused, configuration_of
from rigops.concerns.kernel_args.bootloader.grub import Defaults, DropIns
from rigops.concerns.kernel_args.bootloader.mkinitcpio import Mkinitcpio
from rigops.concerns.kernel_args.record import read_arguments
from rigops.probe.boot_files import KERNEL_CMDLINE
from rigops.probe.sections.bootloader import SECTION as BOOTLOADER
from rigops.probe.sections.rigops_state import ARGUMENTS
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from rigops.probe.sections.bootloader import Bootloader
    from rigops.probe.snapshot import HostSnapshot


@dataclass(frozen=True)
class NextBoot:
    """The arguments of the next boot, as far as they can be read."""

    arguments: frozenset[str]
    place: str
    line: str
    is_complete: bool = True  # an argument that is not among them will not be there
    counts: bool = False  # what boots, and not what it is made from


def of(snapshot: HostSnapshot) -> NextBoot | None:
    bootloader = snapshot[BOOTLOADER].value
    found = configured(bootloader) if bootloader else None
    return found and replace(found, is_complete=snapshot[BOOTLOADER].is_complete)


def configured(boots: Bootloader) -> NextBoot | None:
    """What boots counts, where it can be read; else the files that the menu is made from."""
    if boots.menu:
        entry = boots.menu[0]
        return NextBoot(frozenset(entry.arguments), boots.menu_path, entry.line, counts=True)
    chosen = configuration_of(boots)
    if not isinstance(chosen, Refused | DropIns | Defaults):
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
    return NextBoot(frozenset((*own, *others)), place, _cited(boots, place))


def _cited(boots: Bootloader, place: str) -> str:
    said = boots.files.get(place, "").splitlines()
    return next((line for line in said if line.startswith("GRUB_CMDLINE_LINUX")), place)


def record(snapshot: HostSnapshot) -> str:
    """The text of rigops' own record of kernel arguments, or nothing."""
    return snapshot[RIGOPS_STATE].or_empty.records.get(ARGUMENTS, "")


def trying(snapshot: HostSnapshot) -> frozenset[str]:
    """Arguments that are configured, and stand nowhere until one boot has tried them."""
    return frozenset(read_arguments(record(snapshot) or None).trying)
