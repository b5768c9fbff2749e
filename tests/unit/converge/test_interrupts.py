"""Ctrl-C ends a run, in whichever greenlet it comes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.unit.converge.interrupted_apply import POINTS

ROOT = Path(__file__).resolve().parents[3]
APPLY: Final = (
    "import rigops.converge.early, sys; "
    "from tests.unit.converge.interrupted_apply import main; main(sys.argv[1])"
)


@pytest.mark.parametrize("point", POINTS)
def test_it_ends_the_run_and_says_where_each_host_is(point: str) -> None:
    command = [sys.executable, "-c", APPLY, point]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("one: interrupted; interrupted in the stage ")
    assert second.startswith(("two: interrupted; interrupted in the stage ", "two: not_run"))
