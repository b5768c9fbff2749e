"""A run as a person meets it: the plan, one screen of questions, the changes, and its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from rigops.dataclass import dataclass
from rigops.errors import Problem, RigopsError
from rigops.record import journal, lockfile
from rigops.record.lockfile import LockedHost

if TYPE_CHECKING:
    from rigops.converge.fleet_run import FleetRun
    from rigops.converge.request import RebootWhen
    from rigops.converge.result import HostResult
    from rigops.plan.change import Repair

REBOOT: Final = "reboot"
_PRUNE: Final = "prune"
_NO_TRIAL: Final = "no trial"
_NAMED: Final = 4  # hosts of a question; more are counted


@dataclass(frozen=True)
class Item:
    """`flag`: what allows it without a question."""

    key: str
    text: str
    flag: str


@dataclass(frozen=True)
class Reboot:
    """`hosts`: that need it. `choice`: of --reboot. `is_needed`: without it nothing is done.

    `fails`: what does not work from the change until the reboot.
    """

    hosts: tuple[str, ...]
    choice: RebootWhen
    fails: tuple[str, ...] = ()
    is_needed: bool = False

    @property
    def is_asked(self) -> bool:
        return bool(self.hosts) and self.choice == "ask"

    def allowed_by(self, answer: frozenset[str]) -> frozenset[str]:
        """The hosts that may be rebooted."""
        may_reboot = self.choice == "auto" or (self.is_asked and REBOOT in answer)
        return frozenset(self.hosts if may_reboot else ())


@dataclass(frozen=True)
class Question:
    """`plan`: what a yes always does; empty: nothing. `is_confirmed`: that was confirmed before."""

    plan: str
    reboot: Reboot
    items: Sequence[Item] = ()
    is_confirmed: bool = False


class Approver(Protocol):
    def show(self, results: Sequence[HostResult], /) -> None:
        """The plan."""
        ...

    def ask(self, question: Question, /) -> frozenset[str] | None:
        """The keys of what is allowed beside the plan; None: the plan is declined."""
        ...


@dataclass(frozen=True)
class Ending:
    """`shown`: the hosts whose error was shown with the plan."""

    shown: frozenset[str] = frozenset()
    is_declined: bool = False
    is_interrupted: bool = False


def apply(run: FleetRun, approver: Approver) -> Ending:
    return carry_out(run, approver, _pending, items=_items)


def carry_out(
    run: FleetRun,
    approver: Approver,
    confirms: Callable[[FleetRun], str],
    *,
    items: Callable[[FleetRun], Iterable[Item]] = lambda _: (),
    needs_reboot: bool = False,
    then: Callable[[], object] = lambda: None,
) -> Ending:
    """`confirms`: what a yes confirms in any case. `items`: what it does not include.

    `needs_reboot`: a run that is nothing without its reboot. `then`: runs after success.
    """
    options, shown = run.options, frozenset[str]()
    try:
        run.plan()
        while True:
            approver.show(run.results)
            shown = frozenset(result.host for result in run.results if result.error is not None)
            reboot = _reboot(run, is_needed=needs_reboot)
            asked = () if options.yes else tuple(items(run))
            plan = ", and ".join(filter(None, (confirms(run), _copies(run))))
            allowed = approver.ask(Question(plan, reboot, asked, options.yes))
            if allowed is None or (reboot.is_needed and not reboot.allowed_by(allowed)):
                return Ending(shown, is_declined=True)
            to_repair = {host for host in _broken(run) if _repair_of(host) in allowed}
            if not to_repair:
                break
            run.repair(to_repair)  # it makes another plan of these hosts
        run.confirm(
            removals=options.prune or _PRUNE in allowed,
            no_trial=options.accept_no_trial or _NO_TRIAL in allowed,
        )
        run.carry_out(reboot.allowed_by(allowed))
        then()
    except KeyboardInterrupt:
        return Ending(shown, is_interrupted=True)
    return Ending(shown)


def record(run: FleetRun, tell: Callable[[str], object]) -> list[Problem]:
    """A line in this machine's journal for each host that was reached; the lockfile.

    Gives what could not be recorded.
    """
    problems: list[Problem] = []
    proven: dict[Path, dict[str, LockedHost]] = {}
    for host in run.runs:
        if host.result.outcome not in {"not_run", "unreachable"}:
            with _collect_into(problems):
                journal.append(host.journal_entry())
        if host.result.lock is not None and host.request.lock is not None:
            proven.setdefault(host.request.lock, {})[host.request.name] = host.result.lock
    for path, hosts in proven.items():
        with _collect_into(problems):
            if lockfile.update(path, hosts):
                tell(f"Wrote {path.name}; keep it with the inventory.")
    return problems


@contextmanager
def _collect_into(problems: list[Problem]) -> Iterator[None]:
    try:
        yield
    except RigopsError as error:
        problems += error.problems


def _reboot(run: FleetRun, *, is_needed: bool) -> Reboot:
    waiting = [host for host in run.runs if host.needs_reboot]
    names = tuple(host.request.name for host in waiting)
    fails = dict.fromkeys(what for host in waiting for what in host.result.fails_until_reboot)
    reboot = Reboot(names, run.options.reboot, tuple(fails), is_needed and bool(names))
    # One question for both.
    return replace(reboot, choice="auto") if is_needed and not run.options.yes else reboot


def named(hosts: Sequence[str]) -> str:
    """For a question below the plan, which names them all."""
    return ", ".join(hosts) if len(hosts) <= _NAMED else f"{len(hosts)} hosts"


def _pending(run: FleetRun) -> str:
    changing = [one.host for one in run.results if one.error is None and one.plan.pending]
    return f"change {named(changing)}" if changing else ""


def _copies(run: FleetRun) -> str:
    """Of preflight, where nothing else is done: the plan of the others shows theirs."""
    hosts = [
        one.host
        for one in run.results
        if one.error is None and one.preflight_reason and not one.pending and not one.blocked
    ]
    return f"copy between the GPUs of {named(hosts)}" if hosts else ""


def _items(run: FleetRun) -> Iterator[Item]:
    """A lost group file must not undo what it declared."""
    options = run.options
    for host, repairs in _broken(run).items():
        commands = ", ".join(dict.fromkeys(f"`{repair.command}`" for repair in repairs))
        broken = "; ".join(dict.fromkeys(repair.broken for repair in repairs))
        yield Item(_repair_of(host), f"{host}: first {commands}, since {broken}", "")
    undeclared: dict[str, list[str]] = {}
    for result in run.results:
        for concern in result.undeclared:
            undeclared.setdefault(concern, []).append(result.host)
    if undeclared and not options.prune:
        texts = (f"{concern} on {named(hosts)}" for concern, hosts in undeclared.items())
        yield Item(_PRUNE, f"undo what is no longer declared: {', '.join(texts)}", "--prune")
    hosts = [result.host for result in run.results if result.plan.no_trial]
    if hosts and not options.accept_no_trial:
        text = f"{named(hosts)}: make kernel arguments permanent that no boot can try first"
        yield Item(_NO_TRIAL, text, "--accept-no-trial")


def _broken(run: FleetRun) -> dict[str, list[Repair]]:
    """By host: interrupted work of its package manager that is not confirmed yet."""
    offered = {
        result.host: [repair for repair in result.plan.repairs if not repair.agreed]
        for result in run.results
    }
    return {host: repairs for host, repairs in offered.items() if repairs}


def _repair_of(host: str) -> str:
    return f"repair {host}"
