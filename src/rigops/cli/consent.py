"""One screen for all that a run needs consent for."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from rigops.cli.options import is_verbose
from rigops.cli.output import has_terminal, print_declined, text_width
from rigops.converge.flow import REBOOT, Item, Question, Reboot, named
from rigops.dataclass import dataclass
from rigops.report.plan import plan_lines
from rigops.report.terminal import print_lines, visible

if TYPE_CHECKING:
    from rigops.cli.terminal import Progress
    from rigops.converge.result import HostResult

_WORDS: Final = {"yes": "y", "no": "n", "change": "c", "diff": "d"}


@dataclass(frozen=True)
class _Prompt:
    """`choices`: with those between which the diff is offered. `keys`: by number, from 1 on."""

    question: str
    choices: tuple[str, str]
    answers: Mapping[str, frozenset[str] | None]
    keys: tuple[str, ...] = ()


class ConsentScreen:
    """Implements rigops.converge.flow.Approver; progress is silent meanwhile."""

    def __init__(self, progress: Progress, *, has_changes: bool) -> None:
        """`has_changes`: whether the plan has them also without -v."""
        self.progress = progress
        self._has_changes = has_changes
        self._results: Sequence[HostResult] = ()

    def show(self, results: Sequence[HostResult]) -> None:
        self._results = results
        with self.progress.silent():
            self._print(has_diffs=is_verbose())

    def ask(self, question: Question) -> frozenset[str] | None:
        # With -v they have been shown.
        has_more = not is_verbose() and any(one.plan.pending for one in self._results)
        with self.progress.silent():
            return ask(question, partial(self._print, has_diffs=True) if has_more else None)

    def _print(self, *, has_diffs: bool) -> None:
        has_changes = self._has_changes or has_diffs
        width = text_width(sys.stderr)
        lines = plan_lines(self._results, width, has_changes=has_changes, has_diffs=has_diffs)
        print_lines(*lines, err=True)


def ask(question: Question, show_diff: Callable[[], None] | None = None) -> frozenset[str] | None:
    """See Approver.ask. `show_diff`: what a person can see before the answer."""
    plan, reboot = question.plan, question.reboot
    if question.is_confirmed:
        plan = ""
    elif reboot.hosts and reboot.choice == "auto":
        plan = f"{plan} and {_phrase(reboot, plan)}" if plan else _phrase(reboot)
    has_choices = bool(question.items) or reboot.is_asked
    if not has_terminal() and (plan or (has_choices and reboot.is_needed)):
        what, flag = ("", "--yes") if plan else (" the reboot", "--reboot auto")
        print_declined(f"no terminal to confirm{what} on", f"pass {flag}")
        return None
    if not plan and not (has_choices and has_terminal()):
        return frozenset()
    try:
        return _answered(_prompt(plan, question.items, reboot), show_diff)
    except click.Abort:  # Ctrl-C, or the end of the input
        return None


def _prompt(plan: str, items: Sequence[Item], reboot: Reboot) -> _Prompt:
    if items:
        return _by_number(plan, items, reboot)
    if reboot.is_asked:
        return _with_reboot(plan, reboot)
    waits = reboot.choice == "never" and _effect(reboot)
    text = f"{plan}, and {_phrase(reboot, plan)} later? {_effect(reboot)}." if waits else f"{plan}?"
    return _Prompt(_sentence(text), ("[y]es", "[N]o"), {"y": frozenset(), "n": None})


def _effect(reboot: Reboot) -> str:
    """Of a change that waits for it."""
    return f"{' and '.join(reboot.fails)} fails until then" if reboot.fails else ""


def _phrase(reboot: Reboot, plan: str = "") -> str:
    names = named(reboot.hosts)
    before = plan.removesuffix(f" {names}")
    is_same = before != plan and not before.endswith(",")
    pronoun = "them" if len(reboot.hosts) > 1 else "it"
    return f"reboot {pronoun if is_same else names}"


def _with_reboot(plan: str, reboot: Reboot) -> _Prompt:
    allowed = frozenset({REBOOT})
    if not plan:
        text = _sentence(f"{_phrase(reboot)} now?")
        return _Prompt(text, ("[y]es", "[N]o"), {"y": allowed, "n": frozenset()})
    effect = f" ({effect})" if (effect := _effect(reboot)) else ""
    return _Prompt(
        _sentence(f"{plan} and {_phrase(reboot, plan)}?"),
        (f"[y]es, [c]hange now and reboot later{effect}", "[N]o"),
        {"y": allowed, "c": frozenset(), "n": None},
    )


def _by_number(plan: str, items: Sequence[Item], reboot: Reboot) -> _Prompt:
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
    keys = tuple(item.key for item in items)
    return _Prompt(
        "",
        (
            f"[y]es to all{', [c]hange without these' if plan else ''}",
            "[N]o, or the numbers to allow",
        ),
        {"y": frozenset(keys), "c": frozenset(), "n": None if plan else frozenset()},
        keys,
    )


def _answered(prompt: _Prompt, show_diff: Callable[[], None] | None) -> frozenset[str] | None:
    first, last = prompt.choices
    choices = f"{first}, [d]iff, {last}" if show_diff else f"{first}, {last}"
    by_number = {str(number): key for number, key in enumerate(prompt.keys, 1)}
    while True:
        text = f"{prompt.question} {choices}".strip()
        if prompt.question and len(text) + len(": ") > text_width(sys.stderr):
            print_lines(prompt.question, err=True)
            text = choices
        given: str = click.prompt(text, default="n", show_default=False, err=True)
        answer = _WORDS.get(given.strip().lower(), given.strip().lower())
        if answer == "d" and show_diff is not None:
            show_diff()
            continue
        if answer in prompt.answers:
            return prompt.answers[answer]
        numbers = re.split(r"[,\s]+", answer)
        if all(number in by_number for number in numbers):
            return frozenset(by_number[number] for number in numbers)
        also = ", or with numbers such as 1,2" if prompt.keys else ""
        print_lines(f"  Answer with one of these letters{also}.", err=True)


def _sentence(text: str) -> str:
    return visible(f"{text[:1].upper()}{text[1:]}")
