"""Blockers of and notes on new kernel arguments, and why a reboot is due."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from pyinfra.api.command import StringCommand
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.driver_modules import NAME as DRIVER_MODULES
from rigops.concerns.host_catalog import catalog_of
from rigops.concerns.kernel_args import kernel_line, state
from rigops.concerns.kernel_args.boot_places import CONCERN
from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.preconditions import card_users, firmware
from rigops.concerns.preconditions.guards import has_firmware_menus
from rigops.facts.files import FileAt
from rigops.facts.sections import Boot, Bootloader, CommandLine, Firmware, Pci, RigopsState
from rigops.inventory.spec import RigSpec
from rigops.ownership.ownership import Ownership
from rigops.plan.commands import blocked
from rigops.plan.context import is_undone, may_undo
from rigops.probe.sections.own_modules import ARGUMENT as OWN_MODULES
from rigops.probe.sections.own_modules import MODPROBE_FILE
from rigops.probe.sections.rigops_state import ARGUMENTS, LEAVING
from rigops.record.kernel_arguments import read_leaving


@operation()
def arguments_can_count(
    *, concern: str, wanted: tuple[str, ...]
) -> Generator[StringCommand, None, None]:
    """Block arguments that would do nothing, or get lost. Call it before the change.

    + concern: the deploy that adds them
    + wanted: the kernel arguments
    """
    live = host.get_fact(CommandLine).arguments
    found = state.blockers(wanted, live, host.get_fact(Bootloader).files)
    # A plan goes no further than the first command.
    yield from [blocked(host, concern, reason) for reason in found]


def consequences(wanted: tuple[str, ...], *, p2p: str | None) -> Iterator[str]:
    """Effects of new arguments on this machine, their other needs, and other files that set some.

    + p2p: as declared: ``required`` needs the whole memory of each card in its BAR1
    """
    yield from _of_the_iommu(wanted)
    if p2p == "required" and has_firmware_menus():
        seen = host.get_fact(Firmware)
        yield firmware.for_large_windows(catalog_of(host), seen, host.get_fact(Pci))
    yield from kernel_line.conflicts(wanted, host.get_fact(Bootloader).files)
    file = host.get_fact(FileAt, path=kernel_line.TUNED)
    yield kernel_line.tuned_arguments(file.text if file else None, wanted)


def _of_the_iommu(wanted: tuple[str, ...]) -> Iterator[str]:
    live = host.get_fact(CommandLine).arguments
    coming = [one for one in card_users.of_the_iommu(wanted) if one not in live]
    if not coming:
        return
    files = host.get_fact(Bootloader).files
    with_them = (*wanted, *(grub.foreign_arguments(files) if files else live))
    seen = host.get_fact(Firmware)
    if has_firmware_menus() and (
        lacking := kernel_line.without_an_iommu(catalog_of(host), seen, coming)
    ):
        yield lacking
    else:
        yield kernel_line.passthrough_note(coming, with_them, seen)


def not_undone(spec: RigSpec) -> tuple[str, ...]:
    """Of two keys that declare arguments one is gone, and the undo of its own is not confirmed."""
    known = host.get_fact(RigopsState)
    there, _ = state.configured(host.get_fact(Bootloader), known)
    owned = Ownership.from_state(known)
    if spec.kernel_args is None:
        left = tuple(one for one in there if one != OWN_MODULES)
        paths = owned.paths_of(CONCERN) or [ARGUMENTS]
        return () if not left or may_undo(host, CONCERN, paths) else left
    is_left = spec.driver_modules is None and MODPROBE_FILE in owned.files and OWN_MODULES in there
    return (OWN_MODULES,) if is_left and not is_undone(host, DRIVER_MODULES) else ()


def reboot_reasons(concern: str, declared: tuple[str, ...] | None) -> Iterator[str]:
    """Arguments that only a reboot brings into force, or ends."""
    known = host.get_fact(RigopsState)
    left = read_leaving(known.records.get(LEAVING), host.get_fact(Boot).boot_id)
    if declared is None and not left and not is_undone(host, concern):
        return
    added: tuple[str, ...] = ()
    if declared is not None or is_undone(host, concern):
        added, _ = state.configured(host.get_fact(Bootloader), known)
    live = host.get_fact(CommandLine).arguments
    yield from reasons(live, declared or (), tuple(dict.fromkeys((*left, *added))))


def reasons(
    live: tuple[str, ...], declared: tuple[str, ...], leaving: tuple[str, ...]
) -> Iterator[str]:
    """`leaving`: what rigops had added, now or before the last change."""
    for argument in declared:
        if argument not in live:
            yield f"the kernel does not run with {argument} yet"
    for argument in leaving:
        if argument in live and argument not in declared:
            yield f"the kernel still runs with {argument}"
