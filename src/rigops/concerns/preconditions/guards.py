"""Guards of several concerns: what blocks a change, and what a person should know of it.

One that may block comes before the change in a deploy. Notices come after it, and collect nothing
unless something is to be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

from pyinfra import logger
from pyinfra.api.command import StringCommand
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.concerns.preconditions import card_users, root
from rigops.concerns.preconditions.root import Root
from rigops.facts.sections import Boot, CommandLine, Modprobe, Pci, Processes
from rigops.plan.commands import blocked
from rigops.plan.context import consent_of, is_by_rigops, notice, plan_of


@operation()
def gpus_are_free(*, concern: str) -> Generator[StringCommand, None, None]:
    """Block a disruptive change while jobs run on the cards. Call it before the change.

    + concern: the deploy that would disrupt them
    """
    processes = host.get_fact(Processes)
    jobs = card_users.jobs(processes)
    if jobs is None:
        yield blocked(host, concern, "the processes on the GPUs could not be read")
    elif jobs and not consent_of(host).interrupt:
        reason = f"GPU jobs run ({', '.join(jobs)}): wait for them, or --allow-busy"
        yield blocked(host, concern, reason)
    elif jobs:
        _report(concern, f"GPU jobs are interrupted: {', '.join(jobs)}")
    elif desktops := card_users.desktops(processes):
        _report(concern, f"a desktop is interrupted: {', '.join(desktops)}")


@operation()
def notices(
    *, concern: str, texts: Callable[[], Iterable[str]]
) -> Generator[StringCommand, None, None]:
    """Report what a change of this concern entails. Call it after the change.

    + texts: called only where something is to be changed; an empty one is left out
    """
    log = plan_of(host)
    is_changed = bool(log.packages) or any(one.concern == concern for one in log.changes)
    # Notes of the plan are not repeated while it is applied; with `pyinfra -y` there is no plan.
    applies_a_plan = host.state.is_executing and host.state.check_for_changes
    if is_changed and not applies_a_plan:
        for text in texts():
            _report(concern, text)
    yield from ()


def virtual_machines(*, arguments: Iterable[str] = (), because: str = "") -> str:
    """Cards that are passed through, where a change concerns those; else empty.

    + arguments: kernel arguments that are declared; only new ones of the IOMMU count
    + because: any other change that concerns them, such as ``another driver``
    """
    live = host.get_fact(CommandLine).arguments
    coming = [one for one in card_users.of_the_iommu(arguments) if one not in live]
    reasons = [*coming, *([because] if because else [])]
    if not reasons:
        return ""
    return card_users.warning(", ".join(reasons), host.get_fact(Pci), host.get_fact(Modprobe), live)


def no_snapshot() -> str:
    """That no snapshot is taken where one could be; else empty. rigops itself takes one."""
    return "" if is_by_rigops(host) else root.plain_notice(host.get_fact(Root))


def has_firmware_menus() -> bool:
    """The firmware of a virtual machine is the hypervisor's."""
    return host.get_fact(Boot).is_virtual_machine is not True


def _report(concern: str, text: str) -> None:
    """Once for a host, whichever concern is first. Under plain pyinfra it is a warning."""
    if text and text not in [one for _, one in plan_of(host).notices]:
        notice(host, concern, text)
        logger.warning("%s%s", host.print_prefix, text)
