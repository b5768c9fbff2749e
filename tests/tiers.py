"""Runs the checks and test tiers in order, and reports what could not run here, and why.

python -m tests.tiers                   everything but the heavy shards (`make test`)
python -m tests.tiers unit lab          only these
python -m tests.tiers --shard NAME      one heavy shard
python -m tests.tiers --minutes COUNT   the shards that fit into this time, in turn
python -m tests.tiers --all             everything, every shard too (`make test-all`)
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree as ET

from tests import shards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[1]
NOTHING_SKIPPED = "RIGOPS_NOTHING_SKIPPED"
RECENT_COMMITS = 20
NOTES = ROOT / ".venv/tests.xml"
MOST_SECOND_TRIES = 3  # modules; where more fail, it is no chance

_HERE = [sys.executable, "-m"]
_PYTEST = [*_HERE, "pytest", "-q"]


def _always() -> str | None:
    return None


def _needs_sshd() -> str | None:
    folders = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return None if shutil.which("sshd", path=folders) else "openssh-server is not installed"


@dataclass(frozen=True)
class Step:
    name: str
    commands: tuple[list[str], ...]
    lacks: Callable[[], str | None] = _always
    boots_hosts: bool = False


STEPS = (
    Step("lint", ([*_HERE, "ruff", "check", "."], [*_HERE, "ruff", "format", "--check", "."])),
    Step("types", ([*_HERE, "mypy"],)),
    Step("imports", ([str(Path(sys.executable).with_name("lint-imports"))],)),
    Step("unit", ([*_PYTEST, *shards.EVERY_CORE, "tests/unit"],)),
    Step("lab", ([*_PYTEST, *shards.TWO_MODULES, "tests/lab"],), _needs_sshd, boots_hosts=True),
)


def _step_of(shard: shards.Shard) -> Step:
    command = [*_PYTEST, *shard.options, "--shard", shard.name, shard.folder]
    boots_hosts = shard.folder in {"tests/lab", "tests/vm"} and shard.name != shards.BARE_DEBIAN
    return Step(shard.name, (command,), shard.lacks, boots_hosts)


Outcome = Literal[
    "passed", "passed at the second try", "FAILED", "could not run here", "has no tests yet"
]


@dataclass(frozen=True)
class Result:
    step: str
    outcome: Outcome
    seconds: float = 0
    why: str = ""


def main() -> int:
    results = [_run(step) for step in _chosen(_arguments())]
    print("\nTiers:")
    for result in results:
        why = f": {result.why}" if result.why else ""
        print(f"  {result.step:<12} {result.outcome}{why} ({result.seconds:.0f} s)")
    complete = os.environ.get(NOTHING_SKIPPED) is not None
    wrong = {"FAILED", "could not run here"} if complete else {"FAILED"}
    return int(any(result.outcome in wrong for result in results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.tiers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("steps", nargs="*", choices=[[], *(step.name for step in STEPS)])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--shard", choices=shards.NAMES)
    which.add_argument("--minutes", type=float)
    which.add_argument("--all", action="store_true")
    return parser.parse_args()


def _chosen(arguments: argparse.Namespace) -> Iterator[Step]:
    if arguments.shard:
        yield _step_of(shards.named(arguments.shard))
    elif arguments.minutes is not None:
        yield from map(_step_of, _that_fit(arguments.minutes))
    else:
        yield from (step for step in STEPS if not arguments.steps or step.name in arguments.steps)
        if arguments.all:
            yield from map(_step_of, shards.SHARDS)


def _that_fit(minutes: float) -> Iterator[shards.Shard]:
    end = time.monotonic() + minutes * 60
    turn = int(_git("rev-parse", "HEAD"), 16)
    changed = _git("log", f"-{RECENT_COMMITS}", "--format=", "--name-only").splitlines()
    return shards.that_fit(shards.in_turn(changed, turn), lambda: (end - time.monotonic()) / 60)


def _git(*words: str) -> str:
    command = ["git", *words]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _run(step: Step) -> Result:
    tests = [word for command in step.commands for word in command if word.startswith("tests/")]
    if not all((ROOT / folder).is_dir() for folder in tests):
        return Result(step.name, "has no tests yet")
    lacks = step.lacks()
    if lacks:
        return Result(step.name, "could not run here", why=lacks)
    began = time.monotonic()
    outcome: Outcome = "passed"
    why = ""
    for command in step.commands:
        print(f"\n[{step.name}] {' '.join(command[2:] if command[1:2] == ['-m'] else command)}")
        sys.stdout.flush()
        if subprocess.run(_noting(command, step), cwd=ROOT, check=False).returncode == 0:
            continue
        modules = _failed_modules() if step.boots_hosts else []
        if 0 < len(modules) <= MOST_SECOND_TRIES and _passes(command, modules):
            outcome, why = "passed at the second try", ", ".join(modules)
        else:
            outcome = "FAILED"
    return Result(step.name, outcome, time.monotonic() - began, why)


def _noting(command: list[str], step: Step) -> list[str]:
    """With a file about every test; without one the last run's would be read."""
    NOTES.unlink(missing_ok=True)
    return [*command, f"--junit-xml={NOTES}"] if step.boots_hosts else command


def _failed_modules() -> list[str]:
    if not NOTES.exists():
        return []
    cases = ET.parse(NOTES).iter("testcase")  # noqa: S314 - pytest wrote it
    names = {
        one.get("classname", "")
        for one in cases
        if one.find("failure") is not None or one.find("error") is not None
    }
    return sorted(f"{name.replace('.', '/')}.py" for name in names)


def _passes(command: list[str], modules: list[str]) -> bool:
    """On new hosts, whole modules: their tests build upon each other."""
    again = [*command[:-1], *modules]
    print(f"\nonce more: {' '.join(again[2:])}", flush=True)
    return subprocess.run(again, cwd=ROOT, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
