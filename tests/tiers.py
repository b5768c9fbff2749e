"""Runs the checks and test tiers in order, and says by name and reason what could not run here.

python -m tests.tiers                 everything but the heavy shards (`make test`)
python -m tests.tiers unit lab        only these
python -m tests.tiers --shard NAME    one heavy shard
python -m tests.tiers --turn COMMIT   the shard whose turn it is at this commit
python -m tests.tiers --all           everything, every shard too (`make test-all`)
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

from tests.lab.requirements import lacks
from tests.lab.vm.requirements import lacks as lacks_machines

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
NOTHING_SKIPPED = "RIGOPS_NOTHING_SKIPPED"
BARE_DEBIAN = "bare-debian"
PROPERTIES = "properties"
LAB_FLEET = "lab-fleet"
LAB_APPLY = "lab-apply"
LAB_DRIVER = "lab-driver"
REAL_DRIVER = "real-driver"
VM_LAB = "vm-lab"
VM_TRIAL = "vm-trial"
VM_LAYOUTS = "vm-layouts"
VM_POWER = "vm-power"
VM_DRIVER = "vm-driver"
VM_FALLBACK = "vm-fallback"
SHARDS = (
    BARE_DEBIAN,
    PROPERTIES,
    LAB_FLEET,
    LAB_APPLY,
    LAB_DRIVER,
    REAL_DRIVER,
    VM_LAB,
    VM_TRIAL,
    VM_LAYOUTS,
    VM_POWER,
    VM_DRIVER,
    VM_FALLBACK,
)

_HERE = [sys.executable, "-m"]
_PYTEST = [*_HERE, "pytest", "-q"]
_ON_EVERY_CORE = ["-n", "auto", "--maxprocesses", "8"]


def _always() -> str | None:
    return None


def _needs_sshd() -> str | None:
    folders = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return None if shutil.which("sshd", path=folders) else "openssh-server is not installed"


def _needs_debootstrap() -> str | None:
    if os.geteuid() != 0:
        return "it makes a Debian machine, which takes root"
    return None if shutil.which("mmdebstrap") else "mmdebstrap is not installed"


@dataclass(frozen=True)
class Step:
    name: str
    commands: tuple[list[str], ...]
    lacks: Callable[[], str | None] = _always


STEPS = (
    Step("lint", ([*_HERE, "ruff", "check", "."], [*_HERE, "ruff", "format", "--check", "."])),
    Step("types", ([*_HERE, "mypy"],)),
    Step("imports", ([str(Path(sys.executable).with_name("lint-imports"))],)),
    Step("unit", ([*_PYTEST, *_ON_EVERY_CORE, "tests/unit"],)),
    Step("lab", ([*_PYTEST, "tests/lab"],), _needs_sshd),
)

_SHARD_STEPS = {
    BARE_DEBIAN: Step(
        BARE_DEBIAN, ([*_PYTEST, "--shard", BARE_DEBIAN, "tests/lab"],), _needs_debootstrap
    ),
    PROPERTIES: Step(
        PROPERTIES, ([*_PYTEST, *_ON_EVERY_CORE, "--shard", PROPERTIES, "tests/unit"],)
    ),
    LAB_FLEET: Step(LAB_FLEET, ([*_PYTEST, "--shard", LAB_FLEET, "tests/lab"],), lacks),
    LAB_APPLY: Step(LAB_APPLY, ([*_PYTEST, "--shard", LAB_APPLY, "tests/lab"],), lacks),
    REAL_DRIVER: Step(REAL_DRIVER, ([*_PYTEST, "--shard", REAL_DRIVER, "tests/lab"],), lacks),
    LAB_DRIVER: Step(LAB_DRIVER, ([*_PYTEST, "--shard", LAB_DRIVER, "tests/lab"],), lacks),
    VM_LAB: Step(VM_LAB, ([*_PYTEST, "--shard", VM_LAB, "tests/vm"],), lacks_machines),
    VM_TRIAL: Step(VM_TRIAL, ([*_PYTEST, "--shard", VM_TRIAL, "tests/vm"],), lacks_machines),
    VM_LAYOUTS: Step(VM_LAYOUTS, ([*_PYTEST, "--shard", VM_LAYOUTS, "tests/vm"],), lacks_machines),
    VM_POWER: Step(VM_POWER, ([*_PYTEST, "--shard", VM_POWER, "tests/vm"],), lacks_machines),
    VM_DRIVER: Step(VM_DRIVER, ([*_PYTEST, "--shard", VM_DRIVER, "tests/vm"],), lacks_machines),
    VM_FALLBACK: Step(
        VM_FALLBACK, ([*_PYTEST, "--shard", VM_FALLBACK, "tests/vm"],), lacks_machines
    ),
}

Outcome = Literal["passed", "FAILED", "could not run here", "has no tests yet"]


@dataclass(frozen=True)
class Result:
    step: str
    outcome: Outcome
    seconds: float = 0
    why: str = ""


def main() -> int:
    steps = _chosen(_arguments())
    results = [_run(step) for step in steps]
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
    which.add_argument("--shard", choices=SHARDS)
    which.add_argument("--turn", metavar="COMMIT", type=lambda commit: int(commit, 16))
    which.add_argument("--all", action="store_true")
    return parser.parse_args()


def _chosen(arguments: argparse.Namespace) -> list[Step]:
    if arguments.shard:
        return [_SHARD_STEPS[arguments.shard]]
    if arguments.turn is not None:
        return [_SHARD_STEPS[SHARDS[arguments.turn % len(SHARDS)]]]
    named = [step for step in STEPS if not arguments.steps or step.name in arguments.steps]
    return named + (list(_SHARD_STEPS.values()) if arguments.all else [])


def _run(step: Step) -> Result:
    tests = [word for command in step.commands for word in command if word.startswith("tests/")]
    if not all((ROOT / folder).is_dir() for folder in tests):
        return Result(step.name, "has no tests yet")
    lacks = step.lacks()
    if lacks:
        return Result(step.name, "could not run here", why=lacks)
    began = time.monotonic()
    outcome: Outcome = "passed"
    for command in step.commands:
        print(f"\n[{step.name}] {' '.join(command[2:] if command[1:2] == ['-m'] else command)}")
        sys.stdout.flush()
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            outcome = "FAILED"
    return Result(step.name, outcome, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
