"""The person at the terminal of a command, and the progress of each host that is shown there.

Progress is one live line on a terminal, else a line for each step.
"""

from __future__ import annotations

import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

import click

from rigops.cli.output import has_terminal
from rigops.report.terminal import print_lines, redraw, visible
from rigops.report.words import minutes

if TYPE_CHECKING:
    from typing_extensions import Self  # from Python 3.11 on in typing

    from rigops.backup.engine import Progress as Copied

_REDRAW_S = 0.2
_COUNT = re.compile(r"(?<![0-9])[0-9]{1,9}(?= of [0-9])")


class Progress:
    """Used by several threads at once. `while_asking` surrounds a question to a person."""

    def __init__(
        self,
        doing: str,
        while_asking: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._doing = doing
        self._while_asking = while_asking
        self._began: dict[str, float] = {}
        self._at: dict[str, str] = {}
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._live = sys.stderr.isatty()
        self._drawing: threading.Thread | None = None

    def begin(self, host: str) -> None:
        with self._lock:
            self._began[host] = time.monotonic()

    def say(self, host: str, text: str) -> None:
        """`text`: the current step, "" for none.

        Without a terminal, a new text is printed only if it differs before the first comma, in
        more than in a count such as `3 of 12`.
        """
        with self._lock:
            if not text:
                self._began.pop(host, None)
                self._at.pop(host, None)
                return
            is_news = _step(self._at.get(host, "")) != _step(text)
            self._at[host] = text
            if is_news:
                self._began[host] = time.monotonic()
                if not self._live:
                    print_lines(f"{host}: {text}", err=True)

    def say_copied(self, host: str, found: Copied) -> None:
        from rigops.report.snapshots import progress_text

        self.say(host, progress_text(found))

    def end(self, host: str, outcome: str) -> None:
        with self._lock:
            seconds = time.monotonic() - self._began.pop(host)
            self._at.pop(host, None)
            self._erase()
            if not self._live:
                print_lines(f"{host}: {outcome} ({seconds:.1f} s)", err=True)

    @property
    def unfinished(self) -> list[str]:
        with self._lock:
            return list(self._began)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Draws nothing, while a question is asked."""
        with self._lock, self._while_asking():
            self._erase()
            yield

    def __enter__(self) -> Self:
        if self._live:
            self._drawing = threading.Thread(target=self._draw, daemon=True)
            self._drawing.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._drawing:
            self._drawing.join(1)
        self._erase()

    def _draw(self) -> None:
        while not self._over.wait(_REDRAW_S):
            with self._lock:
                now = time.monotonic()
                hosts = [
                    f"{host}  {self._at.get(host, self._doing)}  {minutes(now - began)}"
                    for host, began in self._began.items()
                ]
                line = "   ".join(hosts)
                redraw(line, shutil.get_terminal_size().columns - 1)

    def _erase(self) -> None:
        if self._live:
            redraw("", 0)


def _step(text: str) -> str:
    return _COUNT.sub("", text.partition(",")[0])


class Terminal:
    """Implements rigops.hosts.parallel.Console."""

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
