"""A rigops reprovision that waits before a stage begins, until its test lets it go on."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.laptop import Laptop, Running

_PATIENCE_S: Final = 180
_PROGRAM: Final = """
import os, pathlib, sys, time
stage, place, seconds = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
del sys.argv[1:4]
from rigops.cli import main
from rigops.cli.terminal import Terminal
from rigops.transport import ssh
if seconds:
    ssh._KEEPALIVE, ssh._UNANSWERED_MS = 1, seconds * 1000
real = Terminal.tell
def tell(self, *lines):
    real(self, *lines)
    if lines and lines[0].endswith(f"] {stage}"):
        place.touch()
        while place.exists():
            time.sleep(0.01)
Terminal.tell = tell
main.run()
"""


@contextmanager
def before(stage: str, laptop: Laptop, *words: str, gives_up_after_s: int = 0) -> Iterator[Running]:
    """It waits until `go_on` is called, and is ended with the body.

    `gives_up_after_s`: how long it waits for a silent host; 0: as long as it always does.
    """
    place = laptop.folder / "stopped"
    place.unlink(missing_ok=True)
    program = ("-c", _PROGRAM, stage, str(place), str(gives_up_after_s))
    running = laptop.start(*words, program=program)
    try:
        end = time.monotonic() + _PATIENCE_S
        while not place.exists():
            assert running.process.poll() is None, running.wait()
            assert time.monotonic() < end, f"it did not come to {stage}"
            time.sleep(0.02)
        yield running
    finally:
        running.end()


def go_on(laptop: Laptop) -> None:
    (laptop.folder / "stopped").unlink()
