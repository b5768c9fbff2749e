"""Kernel arguments that only a reboot brings into force, or ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinfra.context import host

from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.kernel_args.record import read_arguments, read_leaving
from rigops.facts.sections import Boot, Bootloader, CommandLine, RigopsState
from rigops.ownership import Ownership
from rigops.plan.context import is_undone
from rigops.probe.sections.rigops_state import ARGUMENTS, LEAVING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.probe.sections.rigops_state import RigopsState as State


def reboot_reasons(concern: str, declared: tuple[str, ...] | None) -> Iterator[str]:
    state = host.get_fact(RigopsState)
    left = read_leaving(state.records.get(LEAVING), host.get_fact(Boot).boot_id)
    if declared is None and not left and not is_undone(host, concern):
        return
    added = _added(state) if declared is not None or is_undone(host, concern) else ()
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


def _added(state: State) -> tuple[str, ...]:
    """The arguments that rigops added to every boot to come."""
    words = read_arguments(state.records.get(ARGUMENTS)).written
    owned = Ownership.of(state).files.get(grub.DROP_IN)
    found = state.present.get(grub.DROP_IN)
    if owned is None or found is None or not owned.has_ours(found):
        return words  # what somebody changed is left, and no reboot ends it
    in_drop_in = grub.added_arguments(host.get_fact(Bootloader).files.get(grub.DROP_IN, ""))
    return (*words, *(one for one in in_drop_in if one not in words))
