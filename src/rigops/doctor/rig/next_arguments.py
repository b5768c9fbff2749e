"""What the next boot is configured to have, whichever bootloader starts it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rigops.bootloader import entries, grub
from rigops.bootloader.choice import Refused
from rigops.bootloader.grub import DropIns
from rigops.bootloader.grub_defaults import Defaults
from rigops.bootloader.kernel_cmdline import CMDLINE
from rigops.bootloader.mkinitcpio import Mkinitcpio
from rigops.probe.sections.rigops_state import ARGUMENTS
from rigops.record.arguments import arguments

if TYPE_CHECKING:
    from rigops.probe.facts import HostFacts
    from rigops.probe.sections.bootloader import Bootloader


@dataclass(frozen=True)
class NextBoot:
    """The arguments of the next boot, as far as they can be read."""

    arguments: frozenset[str]
    place: str
    line: str
    is_whole: bool = True  # an argument that is not among them will not be there
    counts: bool = False  # what boots, and not what it is made from


def of(facts: HostFacts) -> NextBoot | None:
    found = configured(facts.bootloader) if facts.bootloader else None
    return found and replace(found, is_whole=facts.is_whole("bootloader"))


def configured(boots: Bootloader) -> NextBoot | None:
    """What boots counts, where it can be read; else the files that the menu is made from."""
    if boots.menu:
        entry = boots.menu[0]
        return NextBoot(frozenset(entry.arguments), boots.menu_path, entry.line, counts=True)
    chosen = boots.configuration
    if not isinstance(chosen, Refused | DropIns | Defaults):
        found = entries.normal(boots.texts) if not isinstance(chosen, Mkinitcpio) else ()
        place, line = CMDLINE, boots.texts.get(CMDLINE, CMDLINE).strip()
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


def record(facts: HostFacts) -> str:
    """The text of rigops' own record of kernel arguments, or nothing."""
    return facts.rigops_state.records.get(ARGUMENTS, "") if facts.rigops_state else ""


def trying(facts: HostFacts) -> frozenset[str]:
    """Arguments that are configured, and stand nowhere until one boot has tried them."""
    return frozenset(arguments(record(facts) or None).trying)
