"""The person at the terminal of a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from rigops.cli.output import has_terminal
from rigops.cli.progress import Progress
from rigops.report.terminal import print_lines, visible


class Terminal:
    """Implements rigops.hosts.console.Console."""

    @property
    def can_answer(self) -> bool:
        return has_terminal()

    def tell(self, *lines: str) -> None:
        print_lines(*lines, err=True)

    def progress(self, doing: str) -> Progress:
        return Progress(doing, self.answering)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Surrounds a question."""
        try:
            yield
        except click.Abort:  # Ctrl-C, or the end of the input
            raise KeyboardInterrupt from None

    def agrees(self, question: str) -> bool:
        if not has_terminal():
            return False
        with self.answering():
            return click.confirm(visible(question), err=True)
