"""The last lines of a run: what came of each host, and what to type next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rigops.dataclass import dataclass
from rigops.report.terminal import styled
from rigops.report.words import grouped, without_place, wrapped

if TYPE_CHECKING:
    from rigops.errors import HostError

MOST_IN_FULL: Final = 3  # hosts that are shown each with all
WORST_FIRST: Final = ("fail", "unknown", "warn", "ok")
_COLORS: Final = {"fail": "red", "unknown": "magenta", "warn": "yellow", "ok": "green"}
_ASK: Final = "--ask-sudo-password"
_OF_ALL: Final = ("fix", "plan", "apply")  # without a host they take all
_OF_CONCERNS: Final = ("plan", "apply")
_AS_LOGIN_USER: Final = ("preflight", "history")
_NAMED: Final = 2
_GAP: Final = "  "
_HEADS: Final = ("host", "result", "reason", "next")


@dataclass(frozen=True)
class Step:
    """A command of rigops, with options, to run for a host."""

    command: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """`status`: of WORST_FIRST. `step`: None where nothing is to be done."""

    host: str
    status: str
    result: str
    reason: str = ""
    step: Step | None = None


@dataclass(frozen=True)
class Again:
    """How a run was called.

    `inventory`: its option. `is_whole`: it took all of its hosts. `bundles`: what doctor read.
    `selection`: --only and --skip. `asks_password`: of sudo.
    """

    inventory: tuple[str, ...] = ()
    is_whole: bool = False
    bundles: tuple[str, ...] = ()
    selection: tuple[str, ...] = ()
    asks_password: bool = False

    def command(self, step: Step, hosts: Sequence[str] = ()) -> str:
        own = self.bundles if step.command == "doctor" else ()
        if step.command in _OF_CONCERNS:
            own = self.selection
        password = [_ASK] if self.asks_password and step.command not in _AS_LOGIN_USER else []
        options = dict.fromkeys((*step.options, *password))
        return shlex.join(["rigops", step.command, *self.inventory, *own, *options, *hosts])


def closing_lines(
    rows: Sequence[Row], width: int, again: Again, total: Sequence[str] = ()
) -> list[str]:
    """A table of several hosts, the worst first, equal ones together; of one host its next command.

    Without a table where nothing is to be done. Where it is too wide, commands have lines of their
    own, which are never wrapped. `total`: lines instead of the count of results.
    """
    if len(rows) == 1:
        step = rows[0].step
        return [*total, *([f"Next: {_command(step, [rows[0].host], 1, again)}"] if step else ())]
    alike = grouped(rows, lambda row: (row.status, row.result, row.reason, row.step))
    ordered = sorted(alike.values(), key=lambda same: WORST_FIRST.index(same[0].status))
    total = total or [_count([row for same in ordered for row in same])]
    if not any(row.step for row in rows):
        return [*total] if rows else []
    cells = [_cells(same, len(rows), again) for same in ordered]
    widths = [max(map(len, column)) for column in zip(_HEADS, *cells, strict=True)]
    is_wide = sum(widths) + len(_GAP) * 3 <= width
    if not is_wide:
        widths[2] = 0
    margin = " " * (sum(widths[:2]) + len(_GAP) * 2)
    lines = [
        _GAP.join(f"{head:{wide}}" for head, wide in zip(_HEADS, widths, strict=True)).rstrip()
    ]
    for same, (hosts, result, reason, command) in zip(ordered, cells, strict=True):
        colored = styled(f"{result:{widths[1]}}", fg=_COLORS[same[0].status])
        start = f"{hosts:{widths[0]}}{_GAP}{colored}{_GAP}"
        if is_wide:
            lines.append(f"{start}{reason:{widths[2]}}{_GAP}{command}".rstrip())
            continue
        first, *rest = wrapped(reason, width, margin)
        lines += [f"{start}{first.removeprefix(margin)}", *rest]
        lines += [f"{margin}{command}"] if command else []
    return [*lines, *total]


def error_words(error: HostError, host: str) -> tuple[str, str]:
    """How a host that was not reached is called, and why; a row or line names it already."""
    why = without_place(error.message, host)
    if error.kind != "sudo":
        return "not reached", why
    return "skipped", f"{why} ({_ASK})" if _ASK in error.fix else why


def step_after(error: HostError, command: str) -> Step:
    """`command`: that was run."""
    return Step(command, (_ASK,)) if _ASK in error.fix else Step("doctor")


def _cells(same: Sequence[Row], in_all: int, again: Again) -> tuple[str, str, str, str]:
    hosts = [row.host for row in same]
    more = f" and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else ""
    step = same[0].step
    command = _command(step, hosts, in_all, again) if step else ""
    reason = " ".join(same[0].reason.split()) or "-"
    return f"{', '.join(hosts[:_NAMED])}{more}", same[0].result, reason, command


def _command(step: Step, hosts: Sequence[str], in_all: int, again: Again) -> str:
    is_every = step.command in _OF_ALL and again.is_whole and len(hosts) == in_all
    return again.command(step, () if is_every else hosts)


def _count(rows: Sequence[Row]) -> str:
    counts = Counter(row.result.lower() for row in rows)
    return f"{len(rows)} hosts: {', '.join(f'{count} {word}' for word, count in counts.items())}."
