"""Ctrl-C ends a run, in whichever greenlet it comes."""

from __future__ import annotations

import pytest

from tests.unit.converge.interrupted_apply import POINTS
from tests.unit.forks import ROOT, forked


@pytest.mark.parametrize("point", POINTS)
def test_it_ends_the_run_and_says_where_each_host_is(point: str) -> None:
    code = "from tests.unit.converge.interrupted_apply import main; main(*words)"
    done = forked(code, point, folder=ROOT)

    assert done.code == 130, done.err
    assert "Traceback" not in done.err
    first, second = done.out.splitlines()
    assert first.startswith("one: interrupted; interrupted in the stage ")
    assert second.startswith(("two: interrupted; interrupted in the stage ", "two: not_run"))
