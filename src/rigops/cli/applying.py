"""An apply as a person sees it: the plan, one screen of questions, and the changes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rigops.cli.apply_common import failed_hosts
from rigops.cli.consent import Ending, Item, Reboot, ask
from rigops.cli.options import is_verbose
from rigops.cli.output import text_width
from rigops.converge.request import Confirmed
from rigops.dataclass import dataclass
from rigops.report.plan import plan_lines
from rigops.report.terminal import print_lines

if TYPE_CHECKING:
    from rigops.cli.progress import Progress
    from rigops.converge.fleet_run import FleetRun
    from rigops.plan.change import Repair

_PRUNE = "prune"
_NO_TRIAL = "no trial"


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What options confirm. The rest is asked on a terminal."""

    yes: bool
    reboot: str
    prune: bool = False
    allow_busy: bool = False
    accept_no_trial: bool = False
    force_reboot_wedged: bool = False
    serial: int = 1


def apply(run: FleetRun, progress: Progress, answers: Answers) -> Ending:
    shown: frozenset[str] = frozenset()
    prune, no_trial = answers.prune, answers.accept_no_trial
    try:
        run.plan()
        with progress.silent():
            shown = _show(run)
        while True:
            with progress.silent():
                is_asked = not answers.yes
                items = [*_items(run, prune=prune, no_trial=no_trial)] if is_asked else []
                asked = Reboot.of(run, answers.reboot)
                allowed = ask(_pending(run), items, reboot=asked, yes=answers.yes)
            if allowed is None:
                return Ending(shown, is_declined=True)
            to_repair = {host for host in _broken(run) if _repair_of(host) in allowed}
            if not to_repair:
                break
            run.repair(to_repair)  # it makes another plan of these hosts
            with progress.silent():
                shown = _show(run)
        confirmed = Confirmed(
            removals=prune or _PRUNE in allowed,
            no_trial=no_trial or _NO_TRIAL in allowed,
            reboots=asked.allowed_by(allowed),
            busy=answers.allow_busy,
            wedged=answers.force_reboot_wedged,
            at_once=answers.serial,
        )
        run.confirm(confirmed)
        run.carry_out(confirmed)
    except KeyboardInterrupt:
        return Ending(shown, is_interrupted=True)
    return Ending(shown)


def _show(run: FleetRun) -> frozenset[str]:
    """Prints the plan; gives the hosts whose error it shows."""
    width, every = text_width(sys.stderr), is_verbose()
    lines = plan_lines(run.results, width, has_changes=every, has_diffs=every)
    print_lines(*lines, err=True)
    return failed_hosts(run)


def _pending(run: FleetRun) -> str:
    """What a yes confirms in any case."""
    changing = [one.host for one in run.results if one.error is None and one.plan.pending]
    return f"change {', '.join(changing)}" if changing else ""


def _items(run: FleetRun, *, prune: bool, no_trial: bool) -> Iterator[Item]:
    """What a yes to the plan does not include: a lost group file must not undo what it declared."""
    for host, repairs in _broken(run).items():
        commands = ", ".join(dict.fromkeys(f"`{repair.command}`" for repair in repairs))
        broken = "; ".join(dict.fromkeys(repair.broken for repair in repairs))
        yield Item(_repair_of(host), f"{host}: first {commands}, since {broken}", "")
    undeclared = [
        f"{concern} on {result.host} ({', '.join(paths)})"
        for result in run.results
        for concern, paths in result.undeclared.items()
    ]
    if undeclared and not prune:
        yield Item(_PRUNE, f"undo what nothing declares: {'; '.join(undeclared)}", "--prune")
    hosts = [result.host for result in run.results if result.plan.no_trial]
    if hosts and not no_trial:
        text = f"{', '.join(hosts)}: make kernel arguments permanent that no boot can try first"
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
