"""One screen for all that a run needs consent for; and undoing, which needs it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rigops.cli.apply_common import failed_hosts
from rigops.cli.output import has_terminal
from rigops.report.plan import plan_lines
from rigops.report.terminal import print_lines, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rigops.cli.progress import Progress
    from rigops.converge.fleet_run import FleetRun
    from rigops.converge.request import Confirmed

_REBOOT = "reboot"


@dataclass(frozen=True)
class Item:
    """`flag`: what allows it without a question."""

    key: str
    text: str
    flag: str


def to_reboot(run: FleetRun) -> list[str]:
    return [one.request.name for one in run.runs if one.needs_reboot]


def reboot_items(run: FleetRun, choice: str) -> list[Item]:
    """`choice`: of --reboot."""
    hosts = to_reboot(run)
    if choice != "ask" or not hosts:
        return []
    return [Item(_REBOOT, f"reboot {', '.join(hosts)}", "--reboot auto")]


def reboots(run: FleetRun, choice: str, allowed: frozenset[str]) -> frozenset[str]:
    """The hosts that may be rebooted, of those that need it."""
    may_reboot = choice == "auto" or (choice == "ask" and _REBOOT in allowed)
    return frozenset(to_reboot(run)) if may_reboot else frozenset()


def ask(plan: str, items: Sequence[Item], *, yes: bool) -> frozenset[str] | None:
    """The keys of what is allowed beside the plan; None: the plan is declined.

    `plan`: what a yes always does; empty where nothing is pending. `yes`: already confirmed.
    """
    if yes:
        plan = ""
    if not plan and (not items or not has_terminal()):
        return frozenset()
    if not has_terminal():
        print_lines("Declined: no terminal to confirm on.", "    fix: pass --yes", err=True)
        return None
    try:
        return _asked(plan, items)
    except click.Abort:  # Ctrl-C, or the end of the input
        return None


def _asked(plan: str, items: Sequence[Item]) -> frozenset[str] | None:
    if not items:
        question = visible(f"{plan[:1].upper()}{plan[1:]}?")
        return frozenset() if click.confirm(question, err=True) else None
    texts = [visible(item.text) for item in items]
    widest = max(map(len, texts))
    lines = ["To confirm, or to allow by option:", *([f"     {plan}"] if plan else [])]
    lines += [
        f"  {number}  {text:{widest}}  {item.flag}"
        for number, (text, item) in enumerate(zip(texts, items, strict=True), 1)
    ]
    print_lines(*lines, err=True)
    only = "[c]hange without these, " if plan else ""
    choices = f"[y]es to all, {only}[N]o, or the numbers to allow"
    while True:
        answer = click.prompt(choices, default="n", show_default=False, err=True).strip().lower()
        chosen = _chosen(answer, items)
        if chosen is not None:
            return chosen
        if answer in {"n", "no"}:
            return None if plan else frozenset()
        print_lines("  Answer with one of these letters, or with numbers such as 1,2.", err=True)


def _chosen(answer: str, items: Sequence[Item]) -> frozenset[str] | None:
    if answer in {"y", "yes"}:
        return frozenset(item.key for item in items)
    if answer in {"c", "change"}:
        return frozenset()
    by_number = {str(number): item.key for number, item in enumerate(items, 1)}
    numbers = re.split(r"[,\s]+", answer)
    known = all(number in by_number for number in numbers)
    return frozenset(by_number[number] for number in numbers) if known else None


@dataclass(frozen=True)
class Ending:
    """`shown`: the hosts whose error was shown with the plan."""

    shown: frozenset[str] = frozenset()
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
    shown: frozenset[str] = frozenset()
    try:
        run.plan()
        with progress.silent():
            print_lines(*plan_lines(run.results), err=True)
            shown = failed_hosts(run)
            allowed = ask(question(), reboot_items(run, reboot), yes=yes)
            if allowed is None:
                return Ending(shown, is_declined=True)
            given = confirmed(reboots(run, reboot, allowed))
        run.confirm(given)
        run.carry_out(given)
        then()
    except KeyboardInterrupt:
        return Ending(shown, is_interrupted=True)
    return Ending(shown)
