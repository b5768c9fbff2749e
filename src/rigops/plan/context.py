"""What the operations of one host may do in a run of its deploys, and what they report of it.

It is all that rigops has in pyinfra's `connector_data`. Under plain pyinfra nobody can consent to
anything, and nobody reads the log.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rigops.dataclass import dataclass
from rigops.plan.change import PackageChanges, Plan

if TYPE_CHECKING:
    from pyinfra.api.host import Host

    from rigops.plan.change import Change, LaterChange, Repair

_SLOT: Final = "rigops"

Provided = TypeVar("Provided")


@dataclass(frozen=True, kw_only=True)
class Consent:
    """What a person allows beside the plan itself; confirming that implies nothing of it.

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

    `deadline_s`: how long after its start a trial boot waits for somebody to confirm it. `cards`:
    the addresses of those that have to be there then.
    """

    deadline_s: int
    cards: tuple[str, ...] = ()
    now: bool = False  # the reboot follows at once: lay the trial entry out, and order it
    given_up: bool = False  # a trial failed: leave nothing of it behind


@dataclass
class PlanLog:
    """All that the operations of one host report in one run of its deploys."""

    headlines: list[tuple[str, str]] = field(default_factory=list)  # concern and what is to come
    changes: list[Change] = field(default_factory=list)
    later: list[LaterChange] = field(default_factory=list)
    packages: dict[str, PackageChanges] = field(default_factory=dict)  # by concern
    repairs: list[Repair] = field(default_factory=list)
    blocked: list[tuple[str, str]] = field(default_factory=list)  # concern and reason
    notices: list[tuple[str, str]] = field(default_factory=list)  # concern and what to know
    warnings: set[str] = field(default_factory=set)  # those of them that are for the question
    next_steps: list[str] = field(default_factory=list)  # those that a person does afterwards
    undeclared: dict[str, tuple[str, ...]] = field(default_factory=dict)  # concern and its files
    wanted_paths: dict[str, set[str]] = field(default_factory=dict)  # by concern
    trial_arguments: tuple[str, ...] = ()  # that the next boot is to try
    trial_wait_s: int = 0  # what the bootloader's menus add to that
    no_trial: str = ""  # why no boot can try new kernel arguments
    reboot_reasons: list[tuple[str, str]] = field(default_factory=list)  # concern and reason
    fails_until_reboot: list[tuple[str, str]] = field(default_factory=list)  # concern and what
    housekeeping: list[tuple[str, str]] = field(default_factory=list)  # concern and its record
    reported: set[str | None] = field(default_factory=set)  # operations that are in this log

    @property
    def plan(self) -> Plan:
        return Plan(
            headlines=tuple(self.headlines),
            changes=tuple(self.changes),
            later=tuple(dict.fromkeys(self.later)),
            packages_by=dict(self.packages),
            repairs=tuple(self.repairs),
            housekeeping=tuple(dict.fromkeys(self.housekeeping)),
            blocked=tuple(self.blocked),
            notices=tuple(self.notices),
            warnings=frozenset(self.warnings),
            next_steps=tuple(self.next_steps),
            undeclared=dict(self.undeclared),
            trial_arguments=self.trial_arguments,
            trial_wait_s=self.trial_wait_s,
            no_trial=self.no_trial,
            reboot_reasons=tuple(self.reboot_reasons),
            fails_until_reboot=tuple(self.fails_until_reboot),
        )


@dataclass
class HostContext:
    """`trial` is None where the run cannot bring a host back, as in plain pyinfra.

    `shown`: the plan that is applied; None where none was made, as in plain pyinfra.
    """

    consent: Consent = field(default_factory=Consent)
    trial: TrialOptions | None = None
    shown: Plan | None = None
    log: PlanLog = field(default_factory=PlanLog)
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


def plan_log(host: Host) -> PlanLog:
    return context_of(host).log


def provide(host: Host, value: object) -> None:
    """Give the operations of a concern what only this run knows, to be asked for by its type."""
    context_of(host).provided[type(value)] = value


def provided(host: Host, kind: type[Provided]) -> Provided | None:
    return context_of(host).provided.get(kind)


def headline(host: Host, concern: str, text: str) -> None:
    """What the changes of a concern, if there are any, come to in a few words."""
    plan_log(host).headlines.append((concern, text))


def announce(host: Host, change: Change) -> None:
    """Report it before the first command of the operation. UnplannedError: no plan showed it."""
    if (shown := context_of(host).shown) is not None:
        shown.require(change)
    _log_of_operation(host).changes.append(change)


def announce_later(host: Host, change: LaterChange) -> None:
    """It depends on what this apply does before, such as installing packages."""
    plan_log(host).later.append(change)


def announce_packages(host: Host, concern: str, changes: PackageChanges) -> None:
    packages = _log_of_operation(host).packages
    packages[concern] = packages.get(concern, PackageChanges()) + changes


def announce_repair(host: Host, repair: Repair) -> None:
    """Once, whichever operations depend on it."""
    repairs = _log_of_operation(host).repairs
    if repair not in repairs:
        repairs.append(repair)


def announce_blocked(host: Host, concern: str, reason: str) -> None:
    _log_of_operation(host).blocked.append((concern, reason))


def housekeeping(host: Host, concern: str, record: str) -> None:
    """The commands of this operation change a record of rigops' own, or prepare what is planned."""
    _log_of_operation(host).housekeeping.append((concern, record))


def is_reported(host: Host) -> bool:
    """Whether the operation that runs now has reported what its commands do."""
    return host.current_op_hash in plan_log(host).reported


def _log_of_operation(host: Host) -> PlanLog:
    log = plan_log(host)
    log.reported.add(host.current_op_hash)
    return log


def notice(host: Host, concern: str, text: str) -> None:
    """What a person should know before confirming; it blocks nobody."""
    notices = plan_log(host).notices
    if (concern, text) not in notices:
        notices.append((concern, text))


def warning(host: Host, concern: str, text: str) -> None:
    """A notice that apply repeats where it asks: without it the question means something else."""
    notice(host, concern, text)
    plan_log(host).warnings.add(text)


def next_step(host: Host, concern: str, text: str) -> None:
    """A notice of what a person is to do after an apply, which repeats it at its end."""
    notice(host, concern, text)
    plan_log(host).next_steps.append(text)


def needs_reboot(host: Host, concern: str, reason: str, *, fails: str = "") -> None:
    """What is configured, or is going to be, and only a reboot brings into force.

    `fails`: what does not work from the change until the reboot.
    """
    log = plan_log(host)
    if (concern, reason) not in log.reboot_reasons:
        log.reboot_reasons.append((concern, reason))
    if fails and (concern, fails) not in log.fails_until_reboot:
        log.fails_until_reboot.append((concern, fails))


def is_undone(host: Host, concern: str) -> bool:
    """Whether the deploy of this concern undoes what is no longer declared."""
    removals = consent_of(host).removals
    return concern in plan_log(host).undeclared and (removals is None or concern in removals)


def may_undo(host: Host, concern: str, paths: Collection[str]) -> bool:
    """Report that these would go. A lost group file must not undo what it declared."""
    undeclared = plan_log(host).undeclared
    undeclared[concern] = tuple(sorted({*undeclared.get(concern, ()), *paths}))
    return is_undone(host, concern)
