"""The first hour with a simulated rig, at a terminal: docs/first-hour.md is made of it.

What differs from run to run, such as times, is written as one value.
"""

from __future__ import annotations

import platform
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.lab import clients, hosts
from tests.lab.laptop import Laptop
from tests.lab.terminal import Person

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.laptop import Said

HOST: Final = "threadripper"
RIG: Final = f"threadripper-3x3090={HOST}"
PAGE: Final = Path(__file__).resolve().parents[1] / "docs/first-hour.md"

LINES: Final = 50  # of a screen
SILENT_S: Final = 5

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_DRAWN: Final = re.compile(r"\x1b\[G\x1b\[K|[\r\n]+")
_VOLATILE: Final = (
    (re.compile(r"(?<=\()[0-9.]+ s(?=[,)])"), "12.0 s"),
    (re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z"), "2026-11-23T18:00:00Z"),
    (re.compile(r"(?<=on )[0-9]{4}-[0-9]{2}-[0-9]{2}\b"), "2026-11-23"),
    (re.compile(r"\b[0-9,]+ kB"), "640 kB"),
    (re.compile(r"(?<=inventory )[0-9a-f]{12}\b"), "1f0c5d2a9b7e"),
    (
        re.compile(r"\S+@[^\s:,)]+:\S+/inventory\.py\s+[0-9a-f]{12}\b"),
        "me@laptop:~/rigs/inventory.py 1f0c5d2a9b7e",
    ),
    (re.compile(r"(?<=by )\S+@[^\s:,)]+(?=\))"), "me@laptop"),
    (re.compile(r"(?<=apply of )\S+@\S+(?=, )"), "me@laptop"),
    (re.compile(r"(?<=thread )[0-9]+(?= is in state)"), "1234"),
    # A loaded machine has it wait elsewhere for a moment.
    (
        re.compile(r"is in state [RS](?:, waiting in \w+)?"),
        "is in state S, waiting in hrtimer_nanosleep",
    ),
    # What is left to do depends on when Ctrl-C came.
    (re.compile(r"(?<=shows )[0-9]+ notes?"), "7 notes"),
    (re.compile(r"write [0-9]+ new files(; change \S+)?"), "write 13 new files"),
    (re.compile(r"(?<=driver 535\.261\.03) pinned"), ""),
    (re.compile(re.escape(platform.release())), "6.1.0-31"),
)


@dataclass(frozen=True)
class Step:
    """What is typed, and what is answered to the questions that follow."""

    said: str  # before it, to the reader
    words: tuple[str, ...]
    answers: Mapping[str, str] = field(default_factory=dict)
    code: int = 0


STEPS: Final = (
    Step("Begin with an inventory of what is there.", ("init", "--host", HOST)),
    Step("What is wrong with this machine?", ("doctor",), code=1),
    Step("Do copies between the cards really hang?", ("preflight",), {"[y/N]": "y"}, 1),
    Step(
        "Each `fix:` of doctor is a line of the inventory. `fix` writes them, and says what they "
        "come to.",
        ("fix",),
        {"[y/N]": "y"},
    ),
    Step("`plan` shows all of it.", ("plan",)),
    Step(
        "`apply` shows the plan in short and asks. With No, or Ctrl-C, nothing is changed. "
        "Interrupted later, the next run finishes it.",
        ("apply",),
        {"[N]o": "y"},
    ),
    Step("What was done, and when?", ("history",)),
    Step(
        "Should you want rigops no more, `release` undoes what it did, and names what stays.",
        ("release", HOST),
        {"[N]o": "y"},
    ),
)


def laptop(folder: Path) -> Laptop:
    """From which ssh knows the hosts of the lab by their names."""
    ssh = folder / "ssh"
    ssh.mkdir()
    (ssh / "config").write_text(f"Include {clients.config()}\n")
    return Laptop(folder, ssh)


def story(folder: Path) -> Iterator[str]:
    """The page, piece by piece, of a host that is up."""
    own = laptop(folder)
    yield _BEGINNING
    for step in STEPS:
        yield f"\n{step.said}\n"
        person = Person(step.answers, sees_all=True, columns=100)
        said = person.rigops(own, step.words, timeout=100)
        shown = seen(said)
        if said.code != step.code:
            raise AssertionError(f"{step.words} ended with {said.code}:\n{shown}")
        yield f"\n```\n$ rigops {' '.join(step.words)}\n{shown}```\n"


def screen(text: str) -> str:
    """What stays of it on a terminal whose last line is drawn again and again."""
    lines = (line.rpartition("\x1b[G\x1b[K")[2] for line in text.replace("\r\n", "\n").split("\n"))
    return "\n".join(_STYLE.sub("", line).rstrip() for line in lines).strip("\n") + "\n"


def seen(said: Said) -> str:
    """What stays of a command that fits one screen and is never long without a word."""
    shown = screen(said.err)
    assert shown.count("\n") <= LINES, shown
    # Counted, since the machine of a test has pauses of its own: each second is drawn.
    assert len(set(_DRAWN.split(said.err))) * SILENT_S >= said.seconds, said.err
    return shown


def settled(text: str, folder: Path) -> str:
    """Without what differs from run to run."""
    text = text.replace(str(folder / "data"), "~/.local/share").replace(str(folder), "~/rigs")
    for shape, fixed in _VOLATILE:
        text = shape.sub(fixed, text)
    return text


_BEGINNING: Final = """\
# The first hour

A machine with three RTX 3090 on which training hangs, from `rigops init` to a proof, and back. All
of it is recorded at a terminal of 100 columns, on a simulated rig (`make first-hour-page`); a test
compares it. The durations are made alike.
"""


def recorded() -> str:
    """In a folder whose path is always as long: notes are cut where a terminal's line ends."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, hosts.running([RIG]):
        at = Path(folder)
        return settled("".join(story(at)), at)


if __name__ == "__main__":
    sys.stdout.write(recorded())
