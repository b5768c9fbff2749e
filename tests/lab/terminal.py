"""A person at a terminal, who answers what a program asks there."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.lab.laptop import RIGOPS, Said
from tests.lab.sshd import until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.lab.laptop import Laptop


CTRL_C = "\x03"
# Whoever runs the tests in the background has Ctrl-C ignored, and what they start would inherit it.
_AT_A_TERMINAL = ("setsid", "--ctty", "--wait", "env", "--default-signal=INT")


def wait_for_hiding(master: int) -> None:
    """What is typed before the echo is off would be thrown away."""
    until(lambda: not termios.tcgetattr(master)[3] & termios.ECHO, "the echo to be off")


@dataclass
class Person:
    """`answers`: what is typed, by words of the question; each is given once, in this order.

    `program`: what is called as rigops. `meanwhile`: what happens while a question is open.
    `sees_all`: standard output is the terminal too, else no terminal, as where it goes into a file.
    `columns`: of the terminal, if that matters.
    """

    answers: Mapping[str, str]
    program: Sequence[str] = RIGOPS
    seen: list[str] = field(default_factory=list)
    meanwhile: Callable[[], object] = lambda: None
    sees_all: bool = False
    columns: int = 0

    def rigops(self, laptop: Laptop, words: Sequence[str], *, timeout: float = 120) -> Said:
        master, slave = pty.openpty()
        if self.columns:
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, self.columns, 0, 0))
        began = time.monotonic()
        process = subprocess.Popen(
            [*_AT_A_TERMINAL, *laptop.at_home([sys.executable, *self.program, *words])],
            cwd=laptop.folder,
            stdin=slave,
            stdout=slave if self.sees_all else subprocess.PIPE,
            stderr=slave,
            text=True,
            env=laptop.environment(),
        )
        os.close(slave)
        answering = threading.Thread(target=self._answer, args=(master,))
        answering.start()
        try:
            out, _ = process.communicate(timeout=timeout)
        finally:
            process.kill()
            process.wait()
            answering.join()
            os.close(master)
        return Said(process.returncode, out or "", "".join(self.seen), time.monotonic() - began)

    def _answer(self, master: int) -> None:
        left = list(self.answers.items())
        unanswered = ""
        while True:
            try:
                text = os.read(master, 4096).decode(errors="replace")
            except OSError:  # nobody has the terminal open any more
                return
            if not text:
                return
            self.seen.append(text)
            unanswered += text
            if left and left[0][0] in unanswered:
                self.meanwhile()
                time.sleep(0.2)  # as a person, who reads first
                question, answer = left.pop(0)
                if "assword" in question:
                    wait_for_hiding(master)
                os.write(master, (answer if answer == CTRL_C else f"{answer}\n").encode())
                unanswered = ""
