"""A fresh clone on a bare Debian: `make demo` and `make test` are all that is needed."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests import bare
from tests.shards import BARE_DEBIAN
from tests.tiers import NOTHING_SKIPPED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEMO_SECONDS = 240  # the image of the rigs and their packages included

pytestmark = pytest.mark.shard(BARE_DEBIAN)


@pytest.fixture(params=bare.SUITES)
def tree(request: pytest.FixtureRequest) -> Iterator[Path]:
    with bare.tree(request.param) as tree:
        yield tree


def test_without_root_the_tests_pass_and_name_what_could_not_run(tree: Path) -> None:
    demo = _run(tree, "make demo", bare.USER)
    tests = _run(tree, f"unset {NOTHING_SKIPPED}; make test", bare.USER)

    assert "The simulated rigs cannot boot here: booting hosts takes root" in demo
    assert "545" in demo
    assert "unit         passed" in tests
    assert "lab          could not run here: openssh-server is not installed" in tests
    reasons = re.findall(r"(?m)^\d+ tests left out: (.*)$", tests)
    assert "shellcheck is not installed" in reasons
    assert all(one.endswith("is not installed") or "root" in one for one in reasons), reasons


def test_as_root_the_demo_and_the_tests_run_with_no_other_step(tree: Path) -> None:
    demo = _run(tree, "make demo")
    tests = _run(tree, f"{NOTHING_SKIPPED}=1 make test")

    assert "threadripper changed, now as declared" in demo
    took = re.search(r"That took (\d+) s", demo)
    assert took is not None
    assert int(took[1]) < DEMO_SECONDS
    for tier in ("lint", "types", "imports", "unit", "lab"):
        assert f"{tier:<12} passed" in tests


def _run(tree: Path, script: str, user: str = "root") -> str:
    done = subprocess.run(
        bare.command(tree, script, user),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done.stdout
