"""Guards: they say what stands in the way of a change, and who else is hit by it.

One that may block comes before the change in a deploy. One that only tells comes after it, and asks
the host nothing unless something is to be changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinfra import logger
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.bootloader import grub
from rigops.facts.files import FileAt
from rigops.facts.guarding import Firmware, Modprobe, Root
from rigops.facts.sections import Boot, Bootloader, CommandLine, Pci, Processes, Units
from rigops.guarding import firmware, gpu_jobs, iommu, kernel_line, rivals, root, vfio
from rigops.operations.blocked import blocked
from rigops.operations.change import notice, story
from rigops.operations.consent import given
from rigops.operations.known import catalog_of

if TYPE_CHECKING:
    from collections.abc import Collection, Generator

    from pyinfra.api.command import StringCommand

    from rigops.guarding.rivals import Setting


@operation()
def gpus_are_free(*, concern: str) -> Generator[StringCommand, None, None]:
    """Stand in the way of a disruptive change as long as jobs run on the cards. It comes before.

    + concern: the deploy that would disrupt them
    """
    processes = host.get_fact(Processes)
    jobs = gpu_jobs.jobs(processes)
    if jobs is None:
        yield blocked(host, concern, "whether jobs run on the GPUs could not be told")
    elif jobs and not given(host).interrupt:
        reason = f"GPU jobs run ({', '.join(jobs)}): wait for them, or --allow-busy"
        yield blocked(host, concern, reason)
    elif jobs:
        _tell(concern, f"GPU jobs are interrupted: {', '.join(jobs)}")
    elif desktops := gpu_jobs.desktops(processes):
        _tell(concern, f"a desktop is interrupted: {', '.join(desktops)}")


@operation()
def no_rivals(*, concern: str, sets: Collection[Setting]) -> Generator[StringCommand, None, None]:
    """Stand in the way where something else would set the same anew. It comes before the change.

    + concern: the deploy that sets them
    + sets: what it sets: power, clocks, persistence, governor
    """
    found = rivals.rivalry(host.get_fact(Units), frozenset(sets))
    for text in found.notices:
        _tell(concern, text)
    # A plan goes no further than the first command.
    yield from [blocked(host, concern, reason) for reason in found.blocking]


@operation()
def arguments_can_count(
    *, concern: str, wanted: tuple[str, ...]
) -> Generator[StringCommand, None, None]:
    """Stand in the way of arguments that would do nothing, or get lost. It comes before the change.

    + concern: the deploy that adds them
    + wanted: the kernel arguments
    """
    live = host.get_fact(CommandLine).arguments
    coming = [one for one in wanted if one not in live]
    if not coming:
        return
    files = host.get_fact(Bootloader).files
    others = grub.foreign_arguments(files)
    found = (
        *iommu.refusals([one for one in coming if one not in others]),
        *kernel_line.obstacles(coming, files),
    )
    # A plan goes no further than the first command.
    yield from [blocked(host, concern, reason) for reason in found]


@operation()
def tell_of_iommu(*, concern: str, wanted: tuple[str, ...]) -> Generator[StringCommand, None, None]:
    """Say what new arguments about the IOMMU do to this machine. It comes after the change."""
    live = host.get_fact(CommandLine).arguments
    coming = [one for one in vfio.of_the_iommu(wanted) if one not in live]
    if _is_told(concern) or not coming:
        return
    files = host.get_fact(Bootloader).files
    with_them = (*wanted, *(grub.foreign_arguments(files) if files else live))
    seen = host.get_fact(Firmware)
    lacking = firmware.for_an_iommu(catalog_of(host), seen, coming) if _has_menus() else ""
    for text in [lacking] if lacking else iommu.notes(coming, with_them, seen):
        _tell(concern, text)
    yield from ()


@operation()
def tell_of_firmware(
    *, concern: str, p2p: str | None = None, acs: bool = False
) -> Generator[StringCommand, None, None]:
    """Say which settings of the BIOS the goal of a change needs too. It comes after the change.

    + p2p: what is declared of P2P: ``required`` wants the whole memory of each card in its BAR1
    + acs: whether the change clears ACS redirection, for which some boards have a setting
    """
    if _is_told(concern) or not (acs or p2p == "required") or not _has_menus():
        return
    seen = host.get_fact(Firmware)
    if p2p == "required":
        pci = host.get_fact(Pci)
        _tell(concern, firmware.for_large_windows(catalog_of(host), seen, pci))
    if acs:
        _tell(concern, firmware.for_acs(catalog_of(host), seen))
    yield from ()


@operation()
def tell_of_other_arguments(
    *, concern: str, wanted: tuple[str, ...]
) -> Generator[StringCommand, None, None]:
    """Say who else writes on the kernel line, if any of ours change. It comes after the change."""
    if _is_told(concern):
        return
    for text in kernel_line.conflicts(wanted, host.get_fact(Bootloader).files):
        _tell(concern, text)
    file = host.get_fact(FileAt, path=rivals.TUNED_ARGUMENTS)
    _tell(concern, rivals.kernel_arguments(file.text if file else None, wanted))
    yield from ()


@operation()
def tell_virtual_machines(
    *, concern: str, arguments: tuple[str, ...] = (), because: str = ""
) -> Generator[StringCommand, None, None]:
    """Say who has cards passed through, where a change concerns those. It comes after the change.

    + arguments: kernel arguments that are wanted; only those of the IOMMU that come new count
    + because: any other change that concerns them, such as ``another driver``
    """
    if _is_told(concern):
        return
    live = host.get_fact(CommandLine).arguments
    coming = [one for one in vfio.of_the_iommu(arguments) if one not in live]
    reasons = [*coming, *([because] if because else [])]
    if reasons:
        pci, modprobe = host.get_fact(Pci), host.get_fact(Modprobe)
        _tell(concern, vfio.warning(", ".join(reasons), pci, modprobe, live))
    yield from ()


@operation()
def tell_of_no_snapshot(*, concern: str) -> Generator[StringCommand, None, None]:
    """Say that no snapshot is taken where one could be. It comes after the change."""
    if _is_told(concern):
        return
    _tell(concern, root.notice(host.get_fact(Root)))
    yield from ()


def _has_menus() -> bool:
    """The firmware of a virtual machine is the hypervisor's."""
    return host.get_fact(Boot).is_virtual_machine is not True


def _is_told(concern: str) -> bool:
    """Or there is nothing to tell, since nothing is to be changed.

    What was planned is not told again while it is carried out; with `pyinfra -y` there is no plan.
    """
    told = story(host)
    changes = bool(told.packages) or any(one.concern == concern for one in told.changes)
    return not changes or (host.state.is_executing and host.state.check_for_changes)


def _tell(concern: str, text: str) -> None:
    """Once for a host, whichever concern says it first. Under plain pyinfra it is a warning."""
    if text and text not in [one for _, one in story(host).notices]:
        notice(host, concern, text)
        logger.warning("%s%s", host.print_prefix, text)
