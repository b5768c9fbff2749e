"""What apply is going to do, and what became of it, as text."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rigops.converge.result import HostResult
    from rigops.operations.change import Change

_COLORS = {"changed": "green", "converged": "green", "reboot_owed": "yellow"}
_WORDS = {
    "converged": "is as declared",
    "changed": "was changed and is as declared",
    "reboot_owed": "is changed but for a reboot",
    "refused": "was left alone",
    "failed": "FAILED",
    "unreachable": "was not reached",
    "interrupted": "was interrupted; run this again to finish",
    "not_run": "was not touched",
}


def plan_text(results: Sequence[HostResult]) -> str:
    return "\n".join(line for result in results for line in _plan(result))


def outcome_text(results: Sequence[HostResult]) -> str:
    return "\n".join(line for result in results for line in _outcome(result))


def _plan(result: HostResult) -> Iterator[str]:
    yield click.style(result.host, bold=True)
    if result.error is not None:
        yield from _error(result)
        return
    for change in result.changes:
        yield from _change(change)
    for reason in result.reboot_reasons:
        yield f"    reboot: {reason}"
    yield from _blocked(result)
    if not result.pending and not result.blocked:
        yield "    nothing to do"


def _change(change: Change) -> Iterator[str]:
    verb = "remove" if change.after is None else "write" if change.before is None else "change"
    yield f"    {change.concern}: {verb} {change.subject}"
    before = (change.before or "").splitlines()
    after = (change.after or "").splitlines()
    for line in difflib.ndiff(before, after):
        if line[:1] in "+-":
            yield click.style(f"        {line}", fg="green" if line[0] == "+" else "red")


def _outcome(result: HostResult) -> Iterator[str]:
    took = sum(stage.seconds for stage in result.stages)
    said = click.style(_WORDS[result.outcome], fg=_COLORS.get(result.outcome, "red"))
    yield f"{click.style(result.host, bold=True)} {said} ({took:.1f} s)"
    if result.outcome == "reboot_owed":
        yield from (f"    reboot owed: {reason}" for reason in result.reboot_reasons)
    if result.error is not None:
        yield from _error(result)
    yield from _blocked(result)


def _error(result: HostResult) -> Iterator[str]:
    if result.error is not None:
        yield f"    {result.error.message}"
        if result.error.cure:
            yield f"    cure: {result.error.cure}"


def _blocked(result: HostResult) -> Iterator[str]:
    for one in result.blocked:
        keys = f" ({', '.join(one.keys)})" if one.keys else ""
        yield click.style(f"    in the way: {one.concern}{keys}: {one.reason}", fg="yellow")
