"""Past runs in lines, newest first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rigops.record.journal import BEGUN, MADE, PLANNED, UNSURE, Run, Value
from rigops.report.terminal import styled
from rigops.report.words import grouped

_COLORS: Final = {
    "converged": "green", "changed": "green", "proven": "green", "reboot_owed": "yellow",
    "ok": "green", "safe": "green", "same": "green", "better": "green", "warn": "yellow",
}  # fmt: skip
_PREFLIGHT: Final = ("proven", "not_proven")  # on its own
_DONE: Final = ("changed", "reboot_owed")
_BROKEN: Final = ("failed", "interrupted")
_DIGEST_SHOWN: Final = 12
_OF_A_CARD: Final = re.compile(r"GPU [0-9a-fA-F:.]+ ")
_OUTCOMES: Final = {BEGUN: "did not end"}


def history_lines(runs: Sequence[Run], most: int | None = None) -> list[str]:
    """Hosts with the same in one run are one entry. `most`: lines, after the newest entry."""
    if not runs:
        return ["No runs recorded."]
    same = grouped(runs, lambda run: (run.run or run.host, run.at, *_run(run, "")))
    lines: list[str] = []
    for at, (first, *others) in enumerate(same.values()):
        entry = list(_run(first, ", ".join((first.host, *(one.host for one in others)))))
        if lines and most is not None and len(lines) + len(entry) > most:
            return [*lines, f"{len(same) - at} older: add -v"]
        lines += entry
    return lines


def _run(run: Run, hosts: str) -> Iterator[str]:
    outcome = styled(_OUTCOMES.get(run.outcome, run.outcome), fg=_COLORS.get(run.outcome, "red"))
    command = run.command or ("" if run.inventory_digest else _without_inventory(run))
    what = ", ".join(filter(None, (f"{run.seconds:.1f} s", *_origin(run))))
    done = " ".join(filter(None, (command, outcome)))
    yield f"{run.at}  {styled(hosts, bold=True)}  {done}  ({what})"
    yield from (f"    {line}" for line in _changes(run))
    if run.reason:
        yield f"    why: {run.reason}"
    if run.outcome == BEGUN:
        yield f"    its end is not recorded here: interrupted, or the journal of {run.who} has it"
    versions = [f"{name} {version}" for name, version in sorted(run.versions.items())]
    if run.preflight is not None:
        level = f" {run.preflight.level}" if run.preflight.level else ""
        versions.append(f"preflight{level}: {run.preflight.status}")
    if versions:
        yield f"    {', '.join(versions)}"


def _origin(run: Run) -> Iterator[str]:
    """As ssh writes a path on a machine."""
    digest = run.inventory_digest[:_DIGEST_SHOWN]
    if run.who:
        place = f"{run.who}:{run.inventory} {digest}" if run.inventory else run.who
        yield f"by {place}".rstrip()
    if digest and not run.inventory:
        yield f"inventory {digest}"


def _changes(run: Run) -> Iterator[str]:
    """In a few words, then each value. A run that was cut off says how far it came."""
    is_whole = run.outcome in _DONE or {one.state for one in run.values} == {MADE}
    if run.changes:
        yield f"{'' if is_whole else 'planned: '}{', '.join(run.changes)}"
    if run.outcome in _BROKEN and not run.touched:
        yield "nothing was changed"
        return
    yield from _values([one for one in run.values if one.state == MADE], has_names=not is_whole)
    unsure = [one for one in run.values if one.state == UNSURE]
    yield from (f"perhaps made: {line}" for line in _values(unsure, has_names=True))
    if left := dict.fromkeys(one.concern for one in run.values if one.state == PLANNED):
        yield f"not made: {', '.join(left)}"


def _values(values: Sequence[Value], *, has_names: bool) -> Iterator[str]:
    """Those of several cards that are alike are one. `has_names`: of concerns with files only."""
    shown = [one for one in values if one.before or one.after]
    alike: dict[tuple[str, str | None, str | None], list[Value]] = {}
    for one in shown:
        alike.setdefault((_OF_A_CARD.sub("", one.subject), one.before, one.after), []).append(one)
    for (subject, before, after), same in alike.items():
        count = f" ({len(same)} GPUs)" if len(same) > 1 else ""
        name = subject if len(same) > 1 else same[0].subject
        yield f"{name}: {_text(before)} -> {_text(after)}{count}"
    for concern in dict.fromkeys(one.concern for one in values if has_names):
        if all(one.concern != concern for one in shown):
            yield f"{concern}: {', '.join(one.subject for one in values if one.concern == concern)}"


def _text(value: str | None) -> str:
    return "absent" if value is None else value


def _without_inventory(run: Run) -> str:
    """Where the version that wrote it did not say."""
    return "preflight" if run.outcome in _PREFLIGHT else "release"
