"""What release and rollback have in common: plan, ask, carry out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rigops.cli.apply_common import failed
from rigops.cli.consent import ask, reboot_items, reboots
from rigops.report.plan import plan_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.cli.progress import Progress
    from rigops.converge.fleet_run import FleetRun
    from rigops.converge.request import Confirmed


@dataclass(frozen=True)
class Ending:
    """`told`: the hosts whose failure was shown with the plan already."""

    told: frozenset[str] = frozenset()
    is_declined: bool = False
    is_interrupted: bool = False


def undo(
    run: FleetRun,
    progress: Progress,
    *,
    question: Callable[[], str],
    yes: bool,
    reboot: str,
    confirmed: Callable[[frozenset[str]], Confirmed],
    then: Callable[[], object] = lambda: None,
) -> Ending:
    """`question`: what a yes confirms, if anything. `then`: runs after success.

    `confirmed`: takes the hosts that may be rebooted.
    """
    told: frozenset[str] = frozenset()
    try:
        run.plan()
        with progress.silent():
            click.echo(plan_text(run.results), err=True)
            told = failed(run)
            allowed = ask(question(), reboot_items(run, reboot), yes=yes)
            if allowed is None:
                return Ending(told, is_declined=True)
            given = confirmed(reboots(run, reboot, allowed))
        run.confirm(given)
        run.carry_out(given)
        then()
    except KeyboardInterrupt:
        return Ending(told, is_interrupted=True)
    return Ending(told)
