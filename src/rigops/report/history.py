"""Past runs in lines, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rigops.report.terminal import styled

if TYPE_CHECKING:
    from rigops.record.journal import Run

_COLORS: Final = {
    "converged": "green", "changed": "green", "proven": "green", "reboot_owed": "yellow",
}  # fmt: skip
_PREFLIGHT: Final = ("proven", "not_proven")  # on its own
_DONE: Final = ("changed", "reboot_owed")
_DIGEST_SHOWN: Final = 12


def history_lines(runs: Sequence[Run]) -> list[str]:
    if not runs:
        return ["No runs recorded."]
    return [line for run in runs for line in _run(run)]


def _run(run: Run) -> Iterator[str]:
    outcome = styled(run.outcome, fg=_COLORS.get(run.outcome, "red"))
    digest = run.inventory_digest[:_DIGEST_SHOWN]
    command = run.command or ("" if digest else _without_inventory(run))
    inventory = f"inventory {digest}" if digest else ""
    what = ", ".join(filter(None, (f"{run.seconds:.1f} s", inventory)))
    done = " ".join(filter(None, (command, outcome)))
    yield f"{run.at}  {styled(run.host, bold=True)}  {done}  ({what})"
    if run.changes:
        planned = "" if run.outcome in _DONE else "planned: "
        yield f"    {planned}{', '.join(run.changes)}"
    versions = [f"{name} {version}" for name, version in sorted(run.versions.items())]
    if run.preflight is not None:
        level = f" {run.preflight.level}" if run.preflight.level else ""
        versions.append(f"preflight{level}: {run.preflight.status}")
    if versions:
        yield f"    {', '.join(versions)}"


def _without_inventory(run: Run) -> str:
    """Where the version that wrote it did not say."""
    return "preflight" if run.outcome in _PREFLIGHT else "release"
