"""One screen for all that a run needs consent for."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rigops.cli.options import is_verbose
from rigops.cli.output import has_terminal, text_width
from rigops.converge.flow import REBOOT, Item, Question, Reboot
from rigops.dataclass import dataclass
from rigops.report.plan import plan_lines
from rigops.report.terminal import print_lines, visible

if TYPE_CHECKING:
    from rigops.cli.progress import Progress
    from rigops.converge.result import HostResult


@dataclass(frozen=True)
class ConsentScreen:
    """Implements rigops.converge.flow.Approver; progress is silent meanwhile."""

    progress: Progress
    has_changes: bool  # of the plan, also without -v

    def show(self, results: Sequence[HostResult]) -> None:
        with self.progress.silent():
            every, width = is_verbose(), text_width(sys.stderr)
            has_changes = self.has_changes or every
            lines = plan_lines(results, width, has_changes=has_changes, has_diffs=every)
            print_lines(*lines, err=True)

    def ask(self, question: Question) -> frozenset[str] | None:
        with self.progress.silent():
            return ask(question)


def ask(question: Question) -> frozenset[str] | None:
    """See Approver.ask."""
    plan, reboot = question.plan, question.reboot
    if question.is_confirmed:
        plan = ""
    elif reboot.hosts and reboot.choice == "auto":
        plan = f"{plan} and {_phrase(reboot, plan)}" if plan else _phrase(reboot)
    has_choices = bool(question.items) or reboot.is_asked
    if not has_terminal() and (plan or (has_choices and reboot.is_needed)):
        what, flag = ("", "--yes") if plan else (" the reboot", "--reboot auto")
        fix = f"    fix: pass {flag}"
        print_lines(f"Declined: no terminal to confirm{what} on.", fix, err=True)
        return None
    if not plan and not (has_choices and has_terminal()):
        return frozenset()
    try:
        return _asked(plan, question.items, reboot)
    except click.Abort:  # Ctrl-C, or the end of the input
        return None


def _asked(plan: str, items: Sequence[Item], reboot: Reboot) -> frozenset[str] | None:
    if items:
        return _asked_by_number(plan, items, reboot)
    if reboot.is_asked:
        return _asked_with_reboot(plan, reboot)
    waits = reboot.choice == "never" and _effect(reboot)
    text = f"{plan}, and {_phrase(reboot, plan)} later? {_effect(reboot)}." if waits else f"{plan}?"
    return frozenset() if click.confirm(_sentence(text), err=True) else None


def _effect(reboot: Reboot) -> str:
    """Of a change that waits for it."""
    return f"{' and '.join(reboot.fails)} fails until then" if reboot.fails else ""


def _phrase(reboot: Reboot, plan: str = "") -> str:
    names = ", ".join(reboot.hosts)
    before = plan.removesuffix(f" {names}")
    is_same = before != plan and not before.endswith(",")
    pronoun = "them" if len(reboot.hosts) > 1 else "it"
    return f"reboot {pronoun if is_same else names}"


def _asked_with_reboot(plan: str, reboot: Reboot) -> frozenset[str] | None:
    if not plan:
        is_confirmed = click.confirm(_sentence(f"{_phrase(reboot)} now?"), err=True)
        return frozenset({REBOOT} if is_confirmed else ())
    effect = f" ({effect})" if (effect := _effect(reboot)) else ""
    choices = f"[y]es, [c]hange now and reboot later{effect}, [N]o"
    question = _sentence(f"{plan} and {_phrase(reboot, plan)}? {choices}")
    if len(question) + len(": ") > text_width(sys.stderr):
        print_lines(question.removesuffix(f" {choices}"), err=True)
        question = choices
    while True:
        answer = _answer(question)
        if answer in {"y", "yes"}:
            return frozenset({REBOOT})
        if answer in {"c", "change"}:
            return frozenset()
        if answer in {"n", "no"}:
            return None
        print_lines("  Answer with one of these letters.", err=True)


def _asked_by_number(plan: str, items: Sequence[Item], reboot: Reboot) -> frozenset[str] | None:
    if reboot.is_asked:
        effect = f" ({effect})" if (effect := _effect(reboot)) else ""
        items = [*items, Item(REBOOT, f"{_phrase(reboot)}{effect}", "--reboot auto")]
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
