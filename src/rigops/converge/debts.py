"""What only a reboot can bring, computed from what runs and what is configured. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigops.bootloader import grub
from rigops.owned import Ownership
from rigops.probe.sections.rigops_state import ARGUMENTS, LEAVING
from rigops.record.arguments import arguments
from rigops.record.leaving import leaving

if TYPE_CHECKING:
    from rigops.converge.seeing import Sight
    from rigops.probe.sections.boot import Boot
    from rigops.probe.sections.bootloader import Bootloader
    from rigops.probe.sections.proc_cmdline import CommandLine
    from rigops.probe.sections.rigops_state import RigopsState


def debts(seen: Sight, wanted: tuple[str, ...] | None, ours: tuple[str, ...]) -> tuple[str, ...]:
    """`wanted` is None where nothing is declared and nothing is taken back in this run."""
    left = left_running(seen.state, seen.boot)
    leaving = left if wanted is None else tuple(dict.fromkeys((*left, *ours)))
    return reboot_reasons(seen.command_line, wanted or (), leaving)


def reboot_reasons(
    command_line: CommandLine | None, wanted: tuple[str, ...], ours: tuple[str, ...]
) -> tuple[str, ...]:
    """`ours`: the arguments that rigops had added when this run began."""
    live = command_line.arguments if command_line else ()
    awaited = [
        f"the kernel does not run with {argument} yet"
        for argument in wanted
        if argument not in live
    ]
    leaving = [
        f"the kernel still runs with {argument}"
        for argument in ours
        if argument not in wanted and argument in live
    ]
    return tuple(awaited + leaving)


def left_running(state: RigopsState | None, boot: Boot | None) -> tuple[str, ...]:
    """What an earlier run took out of the menu, and no reboot has ended yet."""
    return leaving(state.records.get(LEAVING), boot.boot_id) if state and boot else ()


def added_arguments(state: RigopsState | None, boot: Bootloader | None) -> tuple[str, ...]:
    """The arguments of ours that are part of every boot to come."""
    if state is None or boot is None:
        return ()
    words = arguments(state.records.get(ARGUMENTS)).written
    return (*words, *(one for one in _in_drop_in(state, boot) if one not in words))


def _in_drop_in(state: RigopsState, boot: Bootloader) -> tuple[str, ...]:
    if state.owned is None:
        return ()
    owned = Ownership.parse(state.owned).files.get(grub.DROP_IN)
    found = state.present.get(grub.DROP_IN)
    if owned is None or found is None or not owned.has_ours(found):
        return ()  # what somebody changed is left, and no reboot ends it
    return grub.added_arguments(boot.files.get(grub.DROP_IN, ""))
