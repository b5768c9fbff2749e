"""What the commands that take something back have in common: plan, ask, carry out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rigops.cli.converging import agreed, failed
from rigops.report.plan import plan_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.cli.progress import Progress
    from rigops.converge.agreement import Agreement
    from rigops.converge.run import Apply


@dataclass(frozen=True)
class Ending:
    """`told`: the hosts whose failure was shown with the plan already."""

    told: frozenset[str] = frozenset()
    is_declined: bool = False
    is_interrupted: bool = False


def take_back(
    run: Apply,
    progress: Progress,
    *,
    question: Callable[[], str],
    yes: bool,
    agreement: Callable[[], Agreement],
    then: Callable[[], object] = lambda: None,
) -> Ending:
    """`question`: asked under the plan, if it is any. `then`: what comes after all went well."""
    told: frozenset[str] = frozenset()
    try:
        run.plan()
        with progress.silent():
            click.echo(plan_text(run.results), err=True)
            told = failed(run)
            text = question()
            if text and not (yes or agreed(text)):
                return Ending(told, is_declined=True)
            given = agreement()
        run.agree(given)
        run.carry_out(given)
        then()
    except KeyboardInterrupt:
        return Ending(told, is_interrupted=True)
    return Ending(told)
