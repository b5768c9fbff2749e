"""What reprovision asks a person. Ctrl-C ends each question, and the run with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from rigops.cli.output import has_terminal
from rigops.converge.fleet_run import Interrupts
from rigops.report.terminal import print_lines, visible
from rigops.transport.key_files import fingerprint

if TYPE_CHECKING:
    from rigops.reprovision.trust import Introduction

_AGREED: Final = "yes"


class DeclinedError(Exception):
    """A person said no."""


class Questions:
    """While it is entered, Ctrl-C is raised where it was entered; see Interrupts."""

    def __init__(self) -> None:
        self._interrupts: Interrupts | None = None

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        with Interrupts() as interrupts:
            self._interrupts = interrupts
            try:
                yield
            finally:
                self._interrupts = None

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Surrounds a question."""
        assert self._interrupts is not None  # noqa: S101 - nothing is asked outside
        with self._interrupts.end_the_question():
            try:
                yield
            except click.Abort:
                raise KeyboardInterrupt from None

    def agrees(self, question: str) -> bool:
        """Without a terminal nobody does."""
        if not has_terminal():
            return False
        with self.answering():
            return click.confirm(visible(question), err=True)

    def trusts(self, found: Introduction) -> bool:
        """By a typed yes, with both keys in sight."""
        print_lines(*_both_keys(found), err=True)
        text = "Type yes to trust the key that it shows now"
        with self.answering():
            answer: str = click.prompt(text, default="", show_default=False, err=True)
        return answer.strip().lower() == _AGREED


def _both_keys(found: Introduction) -> list[str]:
    where = visible(found.server.who)
    lines = [f"The host key of {where} is not the known one:"]
    if found.known:
        old = found.known
        lines.append(f"  known  {old.key_type} {fingerprint(old.blob)}  ({old.file}:{old.line})")
    else:
        lines = [f"The host key of {where} is unknown:"]
        lines += [f"  captured  {one}" for one in found.captured]
    lines.append(f"  shown  {found.shown.key_type} {found.fingerprint}")
    kind = found.shown.key_type.removeprefix("ssh-").split("-")[0]
    lines += [
        "Compare the shown one at the console of the host, or in its installer:",
        f"  ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub",
    ]
    return lines


def ask_password(login: str, *, again: bool) -> str | None:
    wrong = "Wrong. " if again else ""
    text = f"{wrong}Password of {visible(login)} (Enter: none)"
    given: str = click.prompt(text, hide_input=True, default="", show_default=False, err=True)
    return given or None
