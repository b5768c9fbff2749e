"""Runs the checks and test tiers in order, and reports what could not run here, and why.

python -m tests.tiers                   everything but the heavy shards (`make test`)
python -m tests.tiers unit lab          only these
python -m tests.tiers --shard NAME      one heavy shard
python -m tests.tiers --minutes COUNT   of the shards of changed files the shortest, so many minutes
python -m tests.tiers --all             everything, every shard too (`make test-all`)
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tests import shards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[1]
NOTHING_SKIPPED = "RIGOPS_NOTHING_SKIPPED"
RECENT_COMMITS = 20
FAILED = ROOT / ".pytest_cache/v/cache/lastfailed"
# Where more fail, it is no chance.
MOST_MODULES_AGAIN = 3
MOST_TESTS_AGAIN = 10

_HERE = [sys.executable, "-m"]
_PYTEST = [*_HERE, "pytest", "-q"]


def _always() -> str | None:
    return None


def _needs_sshd() -> str | None:
    folders = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return None if shutil.which("sshd", path=folders) else "openssh-server is not installed"


def _tests_again(failed: list[str]) -> list[str]:
    return failed if len(failed) <= MOST_TESTS_AGAIN else []


def _modules_again(failed: list[str]) -> list[str]:
    """Whole modules, on new hosts: their tests build upon each other."""
    modules = sorted({test.partition("::")[0] for test in failed})
    return modules if len(modules) <= MOST_MODULES_AGAIN else []


def _nothing_again(_failed: list[str]) -> list[str]:
    return []


@dataclass(frozen=True)
class Step:
    name: str
    commands: tuple[list[str], ...]
    lacks: Callable[[], str | None] = _always
    again: Callable[[list[str]], list[str]] = _nothing_again  # of what failed, once


STEPS = (
    Step("lint", ([*_HERE, "ruff", "check", "."], [*_HERE, "ruff", "format", "--check", "."])),
    Step("types", ([*_HERE, "mypy"],)),
    Step("imports", ([str(Path(sys.executable).with_name("lint-imports"))],)),
    Step("unit", ([*_PYTEST, *shards.EVERY_CORE, "tests/unit"],), again=_tests_again),
    Step("lab", ([*_PYTEST, *shards.TWO_MODULES, "tests/lab"],), _needs_sshd, _modules_again),
)


def _step_of(shard: shards.Shard) -> Step:
    command = [*_PYTEST, *shard.options, "--shard", shard.name, *shard.folders]
    boots_hosts = shard.folders[0] in {"tests/lab", "tests/vm"}
    again = _modules_again if boots_hosts and shard.name != shards.BARE_DEBIAN else _nothing_again
    return Step(shard.name, (command,), shard.lacks, again)


Outcome = Literal["passed", "passed at the second try", "FAILED", "could not run here", "left out"]


@dataclass(frozen=True)
class Result:
    step: str
    outcome: Outcome
    why: str = ""
    seconds: float | None = None


def main() -> int:
    asked = _arguments()
    if asked.minutes is None:
        results = [_run(step) for step in _steps(asked)]
    else:
        results = list(_changed_shards(asked.minutes, asked.until))
    print("\nTiers:")
    for result in results:
        why = f": {result.why}" if result.why else ""
        took = "" if result.seconds is None else f" ({result.seconds:.0f} s)"
        print(f"  {result.step:<12} {result.outcome}{why}{took}")
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
    which.add_argument("--minutes", type=int)
    which.add_argument("--all", action="store_true")
    parser.add_argument("--until", type=int, metavar="EPOCH", help="begin no shard that ends later")
    return parser.parse_args()


def _steps(asked: argparse.Namespace) -> Iterator[Step]:
    if asked.shard:
        yield _step_of(shards.named(asked.shard))
        return
    yield from (step for step in STEPS if not asked.steps or step.name in asked.steps)
    if asked.all:
        yield from map(_step_of, shards.SHARDS)


def _changed_shards(minutes: int, until: int | None) -> Iterator[Result]:
    """By the minutes that are known of them, so that every run of one commit takes the same."""
    changed = shards.touched(_changed_files())
    chosen = shards.that_fit(changed, minutes)
    for shard in chosen:
        if until is not None and time.time() + shard.minutes * 60 > until:
            yield Result(shard.name, "left out", f"{shard.minutes} min, and the time is over")
        else:
            yield _run(_step_of(shard))
    for shard in shards.SHARDS:
        if shard not in chosen:
            why = "" if shard in changed else ", and none of its files changed"
            yield Result(shard.name, "left out", f"{shard.minutes} min{why}")


def _changed_files() -> list[str]:
    """Since the last release before this commit, or in so many commits where there was none."""
    format_ = "--format=%H%x09%D%x09%s"
    for line in _git("log", "--skip=1", "--decorate-refs=refs/tags/*", format_).splitlines():
        commit, tags, subject = line.split("\t", 2)
        if tags or subject.startswith("Release "):
            return _git("diff", "--name-only", commit).splitlines()
    return _git("log", f"-{RECENT_COMMITS}", "--format=", "--name-only").splitlines()


def _git(*words: str) -> str:
    command = ["git", *words]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _run(step: Step) -> Result:
    lacks = step.lacks()
    if lacks:
        return Result(step.name, "could not run here", lacks)
    began = time.monotonic()
    failed, second_tries = False, list[str]()
    for command in step.commands:
        FAILED.unlink(missing_ok=True)
        if _passes(step, command):
            continue
        again = step.again(_failed())
        rest = [word for word in command if not word.startswith("tests/")]
        if again and _passes(step, [*rest, *again]):
            second_tries += again
        else:
            failed = True
    outcome: Outcome = "passed at the second try" if second_tries else "passed"
    return Result(
        step.name,
        "FAILED" if failed else outcome,
        ", ".join(second_tries),
        time.monotonic() - began,
    )


def _passes(step: Step, command: list[str]) -> bool:
    words = command[2:] if command[1:2] == ["-m"] else command
    print(f"\n[{step.name}] {' '.join(words)}", flush=True)
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def _failed() -> list[str]:
    """What pytest wrote down; where it crashed, nothing."""
    return list(json.loads(FAILED.read_text())) if FAILED.exists() else []


if __name__ == "__main__":
    sys.exit(main())
