"""The rights and reports of one host's operations in a run of its deploys.

It is all that rigops has in pyinfra's `connector_data`. Under plain pyinfra there is no consent and
no shown plan.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field
from typing import Any, Final, TypeVar

from pyinfra.api.host import Host

from rigops.dataclass import dataclass
from rigops.plan.change import Change, LaterChange, PackageChanges, Plan, Repair

_SLOT: Final = "rigops"

Provided = TypeVar("Provided")


@dataclass(frozen=True, kw_only=True)
class Consent:
    """Permissions beside the plan itself; confirming the plan implies none of them.

    `removals`: concerns that nothing declares any more and that may be undone; None: all, so that
    a plan shows them. `no_trial`: kernel arguments that no boot can try first may become permanent;
    until a person was asked, so that a plan shows them.
    """

    removals: Collection[str] | None = ()
    keep_holds: bool = False  # of concerns that are undone
    repair: bool = False  # of a package manager that was interrupted
    interrupt: bool = False  # jobs on the GPUs
    upgrade: bool = False  # of what is as declared, to a newer version that is too
    uninstall: bool = False  # of a driver that came from no package
    no_trial: bool = True


@dataclass(frozen=True, kw_only=True)
class TrialOptions:
    """How a run may try new kernel arguments by one boot.

    `deadline_s`: how long after its start a trial boot waits for its confirmation. `cards`:
    the addresses of those that have to be there then. `failed`: why the arguments `tried` are not
    to stay, once a boot or a preflight with them was judged.
    """

    deadline_s: int
    cards: tuple[str, ...] = ()
    now: bool = False  # the reboot follows at once: lay the trial entry out, and order it
    given_up: bool = False  # a trial failed: leave nothing of it behind
    failed: str = ""
    tried: tuple[str, ...] = ()


@dataclass
class HostContext:
    """`has_engine`: rigops runs the deploys; not plain pyinfra.

    `trial` is None where the run cannot bring a host back, as in plain pyinfra.
    `shown`: the plan that is applied; None where none was made, as in plain pyinfra. `plan`: what
    the operations report. `reported`: those that did. `wanted_paths`: by concern.
    """

    has_engine: bool = False
    consent: Consent = field(default_factory=Consent)
    trial: TrialOptions | None = None
    shown: Plan | None = None
    plan: Plan = field(default_factory=Plan)
    reported: set[str | None] = field(default_factory=set)
    wanted_paths: dict[str, set[str]] = field(default_factory=dict)
    provided: dict[type, Any] = field(default_factory=dict)


def context_of(host: Host) -> HostContext:
    context: HostContext = host.connector_data.setdefault(_SLOT, HostContext())
    return context


def consent_of(host: Host) -> Consent:
    return context_of(host).consent


def trial_options(host: Host) -> TrialOptions | None:
    return context_of(host).trial


def is_by_rigops(host: Host) -> bool:
    """Not by plain pyinfra, in which no trial boot is possible."""
    return trial_options(host) is not None


def plan_of(host: Host) -> Plan:
    """The operations' reports so far."""
    return context_of(host).plan


def wanted_paths(host: Host, concern: str) -> set[str]:
    """Files that are declared; what else is owned goes."""
    return context_of(host).wanted_paths.setdefault(concern, set())


def provide(host: Host, value: object) -> None:
    """Give the operations of a concern what only this run knows, to be asked for by its type."""
    context_of(host).provided[type(value)] = value


def provided(host: Host, kind: type[Provided]) -> Provided | None:
    return context_of(host).provided.get(kind)


def headline(host: Host, concern: str, text: str) -> None:
    """A summary of a concern's changes, if there are any."""
    plan_of(host).headlines += ((concern, text),)


def announce(host: Host, change: Change) -> None:
    """Report it before the first command of the operation. UnplannedError: no plan showed it."""
    if (shown := context_of(host).shown) is not None:
        shown.require(change)
    _plan_of_operation(host).changes += (change,)


def announce_later(host: Host, change: LaterChange) -> None:
    """It depends on what this apply does before, such as installing packages."""
    plan = plan_of(host)
    if change not in plan.later:
        plan.later += (change,)


def announce_packages(host: Host, concern: str, changes: PackageChanges) -> None:
    plan = _plan_of_operation(host)
    known = plan.packages_by.get(concern, PackageChanges())
    plan.packages_by = {**plan.packages_by, concern: known + changes}


def announce_repair(host: Host, repair: Repair) -> None:
    """Once, whichever operations depend on it."""
    plan = _plan_of_operation(host)
    if repair not in plan.repairs:
        plan.repairs += (repair,)


def announce_blocked(host: Host, concern: str, reason: str) -> None:
    _plan_of_operation(host).blocked += ((concern, reason),)


def housekeeping(host: Host, concern: str, record: str) -> None:
    """The commands of this operation change a record of rigops' own, or prepare what is planned."""
    plan = _plan_of_operation(host)
    if (concern, record) not in plan.housekeeping:
        plan.housekeeping += ((concern, record),)


def is_reported(host: Host) -> bool:
    """Whether the operation that runs now has reported what its commands do."""
    return host.current_op_hash in context_of(host).reported


def _plan_of_operation(host: Host) -> Plan:
    context_of(host).reported.add(host.current_op_hash)
    return plan_of(host)


def notice(host: Host, concern: str, text: str) -> None:
    """A note for the person who confirms; it blocks nothing."""
    plan = plan_of(host)
    if (concern, text) not in plan.notices:
        plan.notices += ((concern, text),)


def warning(host: Host, concern: str, text: str) -> None:
    """A notice that apply repeats where it asks: without it the question means something else."""
    notice(host, concern, text)
    plan_of(host).warnings |= {text}


def next_step(host: Host, concern: str, text: str) -> None:
    """A notice of what a person is to do after an apply, which repeats it at its end."""
    notice(host, concern, text)
    plan_of(host).next_steps += (text,)


def needs_reboot(host: Host, concern: str, reason: str, *, fails: str = "") -> None:
    """Settings, present or planned, that only a reboot brings into force.

    `fails`: what does not work from the change until the reboot.
    """
    plan = plan_of(host)
    if (concern, reason) not in plan.reboot_reasons:
        plan.reboot_reasons += ((concern, reason),)
    if fails and (concern, fails) not in plan.fails_until_reboot:
        plan.fails_until_reboot += ((concern, fails),)


def is_undone(host: Host, concern: str) -> bool:
    """Whether the deploy of this concern undoes what is no longer declared."""
    removals = consent_of(host).removals
    return concern in plan_of(host).undeclared and (removals is None or concern in removals)


def may_undo(host: Host, concern: str, paths: Collection[str]) -> bool:
    """Report that these would go. A lost group file must not undo what it declared."""
    plan = plan_of(host)
    known = plan.undeclared.get(concern, ())
    plan.undeclared = {**plan.undeclared, concern: tuple(sorted({*known, *paths}))}
    return is_undone(host, concern)
