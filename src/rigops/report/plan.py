"""A plan in lines. What is the same on several hosts is one entry."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from rigops.report.terminal import styled
from rigops.report.words import grouped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rigops.converge.result import HostResult
    from rigops.plan.change import Change, Package

_NAMED: Final = 4  # hosts of a group that are named
_CONTEXT: Final = 2


def plan_lines(results: Sequence[HostResult]) -> list[str]:
    by_lines = grouped(results, lambda result: tuple(_lines(result)))
    return [line for lines, same in by_lines.items() for line in (_head(same), *lines)]


def _head(results: Sequence[HostResult]) -> str:
    hosts = [result.host for result in results]
    named = ", ".join(hosts[:_NAMED])
    more = f" and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else ""
    same = f" (same on {len(hosts)} hosts)" if len(hosts) > 1 else ""
    return styled(f"{named}{more}", bold=True) + same


def _lines(result: HostResult) -> Iterator[str]:
    if result.error is not None:
        yield from error_lines(result)
        return
    for concern, paths in result.undeclared.items():
        yield styled(
            f"    {concern}: no longer declared, undo {', '.join(paths)}",
            fg="yellow",
        )
    yield from _changes(result)
    for reason in result.reboot_reasons:
        yield f"    reboot: {reason}"
    for hit in result.reboot_hits:
        yield styled(f"        a reboot would interrupt: {hit}", fg="yellow")
    for what in result.fails_until_reboot:
        since = "from the change until the reboot" if result.plan.pending else "until the reboot"
        yield styled(f"    {what} fails {since}", fg="yellow")
    for debt in result.other_debts:
        yield f"    reboot for a concern that was not selected: {debt}"
    for notice in result.notices:
        yield styled(f"    note: {notice}", fg="yellow")
    yield from blocked_lines(result)
    if not result.pending and not result.blocked:
        yield "    nothing to do"


def _changes(result: HostResult) -> Iterator[str]:
    plan = result.plan
    for change in plan.changes:
        yield from _change(change)
    yield from _packages(result)
    for later in plan.shown_later:
        yield f"    {later}"
    for concern, record in plan.housekeeping:
        if all(change.concern != concern for change in plan.changes):
            yield f"    {concern}: update {record}"


def error_lines(result: HostResult) -> Iterator[str]:
    if result.error is not None:
        yield styled(f"    {result.error.message}", fg="red")
        if result.error.fix:
            yield f"    fix: {result.error.fix}"


def blocked_lines(result: HostResult) -> Iterator[str]:
    for one in result.blocked:
        keys = f" ({', '.join(one.keys)})" if one.keys else ""
        yield styled(f"    blocked: {one.concern}{keys}: {one.reason}", fg="yellow")


def _change(change: Change) -> Iterator[str]:
    verb = "remove" if change.after is None else "write" if change.before is None else "change"
    drift = f" ({change.drift})" if change.drift else ""
    yield f"    {change.concern}: {verb} {change.subject}{drift}"
    before, after = (
        text.removesuffix("\n").split("\n") if text else []
        for text in (change.before, change.after)
    )
    for line in list(difflib.unified_diff(before, after, lineterm="", n=_CONTEXT))[2:]:
        color = {"+": "green", "-": "red"}.get(line[:1])
        if not line.startswith("@@"):
            yield styled(f"        {line}", fg=color)


def _packages(result: HostResult) -> Iterator[str]:
    for repair in result.plan.repairs:
        if repair.agreed:
            yield f"    first `{repair.command}`, since {repair.broken}"
    for verb, packages in (
        ("install", result.plan.packages.install),
        ("remove", result.plan.packages.remove),
        ("upgrade", result.plan.packages.upgrade),
        ("downgrade", result.plan.packages.downgrade),
    ):
        yield from (f"    {verb} {_package(one)}" for one in packages)


def _package(one: Package) -> str:
    versions = " -> ".join(version for version in (one.before, one.after) if version)
    return f"{one.name} {versions}".rstrip()
