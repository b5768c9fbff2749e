"""Past runs in lines, newest first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rigops.record.journal import BEGUN, MADE, PLANNED, UNSURE
from rigops.report.terminal import styled

if TYPE_CHECKING:
    from rigops.record.journal import Run, Value

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
_STATES: Final = {MADE: "", UNSURE: "perhaps made: ", PLANNED: "not made: "}


def history_lines(runs: Sequence[Run]) -> list[str]:
    if not runs:
        return ["No runs recorded."]
    return [line for run in runs for line in _run(run)]


def _run(run: Run) -> Iterator[str]:
    outcome = styled(_OUTCOMES.get(run.outcome, run.outcome), fg=_COLORS.get(run.outcome, "red"))
    command = run.command or ("" if run.inventory_digest else _without_inventory(run))
    what = ", ".join(filter(None, (f"{run.seconds:.1f} s", *_origin(run))))
    done = " ".join(filter(None, (command, outcome)))
    yield f"{run.at}  {styled(run.host, bold=True)}  {done}  ({what})"
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
    if run.who:
        yield f"by {run.who}"
    inventory = run.inventory if run.who else ""
    if digest := run.inventory_digest[:_DIGEST_SHOWN]:
        yield " ".join(filter(None, ("inventory", inventory, digest)))


def _changes(run: Run) -> Iterator[str]:
    """In a few words, then each value. A run that was cut off says how far it came."""
    is_whole = run.outcome in _DONE or {one.state for one in run.values} == {MADE}
    if run.changes:
        yield f"{'' if is_whole else 'planned: '}{', '.join(run.changes)}"
    if run.outcome in _BROKEN and not run.touched:
        yield "nothing was changed"
        return
    for state, label in _STATES.items():
        found = [one for one in run.values if one.state == state]
        yield from (f"{label}{line}" for line in _values(found, has_names=not is_whole))


def _values(values: Iterable[Value], *, has_names: bool) -> Iterator[str]:
    """Those of several cards that are alike are one. `has_names`: of what has no values too."""
    alike: dict[tuple[str, str | None, str | None], list[Value]] = {}
    for one in values:
        alike.setdefault((_OF_A_CARD.sub("", one.subject), one.before, one.after), []).append(one)
    for (subject, before, after), same in alike.items():
        count = f" ({len(same)} GPUs)" if len(same) > 1 else ""
        name = subject if len(same) > 1 else same[0].subject
        if before or after:
            yield f"{name}: {_text(before)} -> {_text(after)}{count}"
        elif has_names:
            yield f"{name}{' removed' if after is None else ''}"


def _text(value: str | None) -> str:
    return "absent" if value is None else value or "(not shown)"


def _without_inventory(run: Run) -> str:
    """Where the version that wrote it did not say."""
    return "preflight" if run.outcome in _PREFLIGHT else "release"
