"""One screen for all that a run needs consent for; and undoing, which needs it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from rigops.cli.apply_common import failed_hosts
from rigops.cli.options import is_verbose
from rigops.cli.output import has_terminal, text_width
from rigops.dataclass import dataclass
from rigops.report.plan import plan_lines
from rigops.report.terminal import print_lines, visible

if TYPE_CHECKING:
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


@dataclass(frozen=True)
class Reboot:
    """`hosts`: that need it. `choice`: of --reboot.

    `fails`: what does not work from the change until the reboot.
    """

    hosts: tuple[str, ...]
    choice: str
    fails: tuple[str, ...] = ()

    @classmethod
    def of(cls, run: FleetRun, choice: str) -> Reboot:
        its = [one for one in run.runs if one.needs_reboot]
        fails = dict.fromkeys(what for one in its for what in one.result.fails_until_reboot)
        return cls(tuple(one.request.name for one in its), choice, tuple(fails))

    @property
    def is_asked(self) -> bool:
        return bool(self.hosts) and self.choice == "ask"

    @property
    def effect(self) -> str:
        """Of a change that waits for it."""
        return f"{' and '.join(self.fails)} fails until then" if self.fails else ""

    def allowed_by(self, answer: frozenset[str]) -> frozenset[str]:
        """The hosts that may be rebooted."""
        may_reboot = self.choice == "auto" or (self.is_asked and _REBOOT in answer)
        return frozenset(self.hosts if may_reboot else ())

    def phrase(self, plan: str = "") -> str:
        names = ", ".join(self.hosts)
        before = plan.removesuffix(f" {names}")
        is_same = before != plan and not before.endswith(",")
        pronoun = "them" if len(self.hosts) > 1 else "it"
        return f"reboot {pronoun if is_same else names}"


def ask(plan: str, items: Sequence[Item], *, reboot: Reboot, yes: bool) -> frozenset[str] | None:
    """The keys of what is allowed beside the plan; None: the plan is declined.

    `plan`: what a yes always does; empty where nothing is pending. `yes`: already confirmed.
    """
    if yes:
        plan = ""
    elif reboot.hosts and reboot.choice == "auto":
        plan = f"{plan} and {reboot.phrase(plan)}" if plan else reboot.phrase()
    has_choices = bool(items) or reboot.is_asked
    if not plan and not (has_choices and has_terminal()):
        return frozenset()
    if not has_terminal():
        print_lines("Declined: no terminal to confirm on.", "    fix: pass --yes", err=True)
        return None
    try:
        return _asked(plan, items, reboot)
    except click.Abort:  # Ctrl-C, or the end of the input
        return None


def _asked(plan: str, items: Sequence[Item], reboot: Reboot) -> frozenset[str] | None:
    if items:
        return _asked_by_number(plan, items, reboot)
    if reboot.is_asked:
        return _asked_with_reboot(plan, reboot)
    waits = reboot.choice == "never" and reboot.effect
    question = f"{plan}, and {reboot.phrase(plan)} later? {reboot.effect}." if waits else f"{plan}?"
    return frozenset() if click.confirm(_sentence(question), err=True) else None


def _asked_with_reboot(plan: str, reboot: Reboot) -> frozenset[str] | None:
    if not plan:
        is_confirmed = click.confirm(_sentence(f"{reboot.phrase()} now?"), err=True)
        return frozenset({_REBOOT} if is_confirmed else ())
    effect = f" ({reboot.effect})" if reboot.effect else ""
    choices = f"[y]es, [c]hange now and reboot later{effect}, [N]o"
    question = _sentence(f"{plan} and {reboot.phrase(plan)}? {choices}")
    if len(question) + len(": ") > text_width(sys.stderr):
        print_lines(question.removesuffix(f" {choices}"), err=True)
        question = choices
    while True:
        answer = _answer(question)
        if answer in {"y", "yes"}:
            return frozenset({_REBOOT})
        if answer in {"c", "change"}:
            return frozenset()
        if answer in {"n", "no"}:
            return None
        print_lines("  Answer with one of these letters.", err=True)


def _asked_by_number(plan: str, items: Sequence[Item], reboot: Reboot) -> frozenset[str] | None:
    if reboot.is_asked:
        effect = f" ({reboot.effect})" if reboot.effect else ""
        items = [*items, Item(_REBOOT, f"{reboot.phrase()}{effect}", "--reboot auto")]
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
        answer = _answer(choices)
        chosen = _chosen(answer, items)
        if chosen is not None:
            return chosen
        if answer in {"n", "no"}:
            return None if plan else frozenset()
        print_lines("  Answer with one of these letters, or with numbers such as 1,2.", err=True)


def _sentence(text: str) -> str:
    return visible(f"{text[:1].upper()}{text[1:]}")


def _answer(question: str) -> str:
    answer: str = click.prompt(question, default="n", show_default=False, err=True)
    return answer.strip().lower()


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
            width = text_width(sys.stderr)
            print_lines(*plan_lines(run.results, width, has_diffs=is_verbose()), err=True)
            shown = failed_hosts(run)
            asked = Reboot.of(run, reboot)
            allowed = ask(question(), (), reboot=asked, yes=yes)
            if allowed is None:
                return Ending(shown, is_declined=True)
            given = confirmed(asked.allowed_by(allowed))
        run.confirm(given)
        run.carry_out(given)
        then()
    except KeyboardInterrupt:
        return Ending(shown, is_interrupted=True)
    return Ending(shown)
