"""Why declared kernel arguments cannot be configured, and where rigops has its own. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from rigops.concerns.kernel_args import kernel_line
from rigops.concerns.kernel_args.boot_places import DropIn, drop_in_arguments, place_of
from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.kernel_args.bootloader.choice import Blocker
from rigops.json_fields import readable
from rigops.ownership.ownership import Ownership
from rigops.probe.kernel_arguments import words
from rigops.probe.sections.bootloader import Bootloader
from rigops.probe.sections.rigops_state import ARGUMENTS, RigopsState
from rigops.record.kernel_arguments import read_arguments

# Arguments that guides spread and no kernel knows, and what to declare instead.
INSTEAD: Final = {
    "amd_iommu=on": "AMD's IOMMU is on unless the BIOS or amd_iommu=off switches it off, so write "
    "nothing for on, and iommu=pt for passthrough",
    "pci=noacs": '"acs_redirect": "off" in the inventory is what stops the ports between the cards '
    "from redirecting",
}


def known(argument: str) -> list[str]:
    """The words of this argument that no kernel knows: `pci=` and others take lists."""
    return [word for word in words(argument) if word in INSTEAD]


def blockers(
    wanted: Collection[str], live: Collection[str], files: Mapping[str, str]
) -> tuple[str, ...]:
    """Of those that the kernel does not run with yet: they would do nothing, or get lost."""
    coming = [one for one in wanted if one not in live]
    if not coming:
        return ()
    others = grub.foreign_arguments(files)
    unknown = "; ".join(
        f"{word} is an option of no kernel: take it out of kernel_args; {INSTEAD[word]}"
        for argument in coming
        if argument not in others
        for word in known(argument)
    )
    return (*filter(None, [unknown]), *kernel_line.blockers(coming, files))


def configured(boot: Bootloader, state: RigopsState) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The arguments of rigops as plan knows them, and those that every boot has from others."""
    owned = readable(Ownership.parse, state.owned) or Ownership()
    record = read_arguments(state.records.get(ARGUMENTS))
    place = place_of(boot, owned, state, record)
    if isinstance(place, Blocker):
        return record.written, ()
    if isinstance(place, DropIn):
        return place.written, place.foreign
    # Plan takes the file away that this bootloader does not read.
    return (*place.written, *drop_in_arguments(boot, owned, state)), place.foreign
