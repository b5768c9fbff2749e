"""One screen for all that a run needs consent for. Each item can be allowed by itself."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rigops.converge.fleet_run import FleetRun

_REBOOT = "reboot"


@dataclass(frozen=True)
class Item:
    """`flag`: what allows it without a question."""

    key: str
    text: str
    flag: str


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


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

    `plan`: what a yes always does, empty where nothing is pending: then nobody can decline it.
    `yes`: it is confirmed already.
    """
    if yes:
        plan = ""
    if not plan and (not items or not has_terminal()):
        return frozenset()
    if not has_terminal():
        click.echo("Declined: no terminal to confirm on.\n    fix: --yes", err=True)
        return None
    if not items:
        return frozenset() if click.confirm(f"{plan[:1].upper()}{plan[1:]}?", err=True) else None
    click.echo(_screen(plan, items), err=True)
    while True:
        answer = click.prompt(_choices(plan), default="n", show_default=False, err=True)
        chosen = _chosen(answer.strip().lower(), items)
        if chosen is not None:
            return chosen
        if answer.strip().lower() in {"n", "no"}:
            return None if plan else frozenset()
        click.echo("  Answer with one of these letters, or with numbers such as 1,2.", err=True)


def _screen(plan: str, items: Sequence[Item]) -> str:
    widest = max(len(item.text) for item in items)
    lines = [f"     {plan}"] if plan else []
    lines += [
        f"  {number}  {item.text:{widest}}  {item.flag}" for number, item in enumerate(items, 1)
    ]
    return "\n".join(["To confirm, or to allow by option:", *lines])


def _choices(plan: str) -> str:
    only = "[c]hange without these, " if plan else ""
    return f"[y]es to all, {only}[N]o, or the numbers to allow"


def _chosen(answer: str, items: Sequence[Item]) -> frozenset[str] | None:
    if answer in {"y", "yes"}:
        return frozenset(item.key for item in items)
    if answer in {"c", "change"}:
        return frozenset()
    by_number = {str(number): item.key for number, item in enumerate(items, 1)}
    numbers = re.split(r"[,\s]+", answer)
    known = all(number in by_number for number in numbers)
    return frozenset(by_number[number] for number in numbers) if known else None
