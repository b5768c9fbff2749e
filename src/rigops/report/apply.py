"""What became of each host, in lines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rigops.report.plan import blocked_lines, error_lines
from rigops.report.terminal import styled

if TYPE_CHECKING:
    from rigops.converge.result import HostResult

_COLORS = {"changed": "green", "converged": "green", "reboot_owed": "yellow"}
_WORDS = {
    "converged": "as declared",
    "changed": "changed, now as declared",
    "reboot_owed": "changed, reboot pending",
    "refused": "refused, not touched",
    "failed": "FAILED",
    "unreachable": "not reached",
    "interrupted": "interrupted; run this again to finish",
    "not_run": "not touched",
}


def outcome_lines(
    results: Sequence[HostResult],
    words: Mapping[str, str] | None = None,
    *,
    shown: Collection[str] = (),
) -> list[str]:
    """What came of it; where it is the same on several hosts, once.

    `words`: for outcomes that another command than apply names otherwise. `shown`: the hosts whose
    error was shown with the plan, and its fix with it.
    """
    wording = {**_WORDS, **(words or {})}
    folded: dict[tuple[str, ...], list[HostResult]] = {}
    for result in results:
        known = result.host in shown
        lines = (_what_became(result, wording, shown=known), *_lines(result, shown=known))
        folded.setdefault(lines, []).append(result)
    return [
        line
        for (became, *lines), same in folded.items()
        for line in (f"{_head(same)} {became} ({_took(same)})", *lines)
    ]


def _head(results: Sequence[HostResult]) -> str:
    names = styled(", ".join(result.host for result in results), bold=True)
    return names if len(results) == 1 else f"{names} ({len(results)} hosts): each"


def _took(results: Sequence[HostResult]) -> str:
    times = [sum(stage.seconds for stage in result.stages) for result in results]
    least, most = f"{min(times):.1f}", f"{max(times):.1f}"
    return f"{most} s" if least == most else f"{least} to {most} s"


def _what_became(result: HostResult, words: Mapping[str, str], *, shown: bool) -> str:
    color, text = _COLORS.get(result.outcome, "red"), words[result.outcome]
    if result.blocked and result.outcome in {"changed", "converged"}:
        names = ", ".join(dict.fromkeys(one.concern for one in result.blocked))
        color, text = "yellow", f"partly {text}; blocked: {names}"
    if result.outcome == "reboot_owed" and result.fails_until_reboot:
        text = f"{text}; {' and '.join(result.fails_until_reboot)} fails until you reboot it"
    if shown and result.error is not None:
        text = f"{text}: {result.error.message}"
    return styled(text, fg=color)


def _lines(result: HostResult, *, shown: bool) -> Iterator[str]:
    if result.outcome == "reboot_owed":
        yield from (f"    reboot pending: {reason}" for reason in result.reboot_reasons)
    yield from (
        f"    reboot pending for a concern that was not selected: {debt}"
        for debt in result.other_debts
    )
    for one in result.withheld:
        subjects = ", ".join(one.subjects)
        yield styled(
            f"    kept: {one.concern} is no longer declared; --prune undoes {subjects}",
            fg="yellow",
        )
    if result.kept_holds:
        names = " ".join(result.kept_holds)
        yield f"    {len(result.kept_holds)} still held; to release: sudo apt-mark unhold {names}"
    yield from (f"    {line}" for line in result.story)
    if not shown:
        yield from error_lines(result)
    yield from blocked_lines(result)
