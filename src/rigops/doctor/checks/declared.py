"""Whether what a concern can set is as declared: the concern itself judges, here and in a plan."""

from __future__ import annotations

from rigops.concerns.concern import Concern, States
from rigops.concerns.registry import in_this_version
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Finding
from rigops.doctor.views import declared


def checks() -> list[Check]:
    """Of each concern that has a title and an explanation for them."""
    return [
        _check(concern, concern.states, check, text)
        for concern in in_this_version()
        if concern.states is not None
        for check, text in concern.states.checks.items()
    ]


def _check(concern: Concern, states: States, check: str, text: str) -> Check:
    keys = sorted(key.name for key in concern.keys)

    def run(examined: Examined) -> Finding:
        found = declared.judge(examined, concern, check)
        return found or Finding("skipped", f"not declared: {', '.join(keys)}")

    run.__doc__ = text
    return Check(
        check,
        needs=tuple(states.needs()),
        needs_gpu=False,
        fixes=("apply", "hands"),
        keys=frozenset(keys),
        run=run,
    )
