"""The result of each host, in lines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from rigops.converge.result import HostResult
from rigops.preflight.found import HostFound
from rigops.preflight.headline import failure_text, stopgap
from rigops.report.closing import error_words
from rigops.report.plan import blocked_lines
from rigops.report.terminal import styled

_COLORS = {"changed": "green", "converged": "green", "reboot_owed": "yellow"}
_WORDS = {
    "converged": "as declared",
    "changed": "changed, now as declared",
    "reboot_owed": "changed, reboot pending",
    "refused": "refused, not touched",
    "failed": "FAILED",
    "interrupted": "interrupted; run this again to finish",
    "not_run": "not touched",
}


def outcome_lines(
    results: Sequence[HostResult],
    words: Mapping[str, str] | None = None,
    *,
    shown: Collection[str] = (),
    is_brief: bool = False,
) -> list[str]:
    """The result; once where several hosts have the same.

    `words`: for outcomes that another command than apply names otherwise. `shown`: the hosts whose
    error was shown with the plan, and its fix with it. `is_brief`: without what happened on the
    way to hosts where all went well.
    """
    wording = {**_WORDS, **(words or {})}
    folded: dict[tuple[str, ...], list[HostResult]] = {}
    for result in results:
        known = result.host in shown
        became = _what_became(result, wording, shown=known)
        is_short = is_brief and result.exit_code == 0 and result.outcome != "reboot_owed"
        lines = (became, *(() if is_short else _lines(result, shown=known)))
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
    color = _COLORS.get(result.outcome, "red")
    if result.preflight is not None and result.has_failed_proof:
        return styled(f"FAILED its proof: {failure_text(result.preflight)}", fg="red", bold=True)
    if result.outcome == "unreachable" and result.error is not None:
        return styled(": ".join(error_words(result.error, result.host)), fg=color)
    text = words[result.outcome]
    if result.blocked and result.outcome in {"changed", "converged"}:
        names = ", ".join(dict.fromkeys(one.concern for one in result.blocked))
        color, text = "yellow", f"partly {text}; blocked: {names}"
    if result.outcome == "reboot_owed" and result.fails_until_reboot:
        text = f"{text}; {' and '.join(result.fails_until_reboot)} fails until you reboot it"
    if shown and result.error is not None:
        text = f"{text}: {result.error.message}"
    return styled(text, fg=color)


def _lines(result: HostResult, *, shown: bool) -> Iterator[str]:
    if result.preflight is not None and result.has_failed_proof:
        yield from _after_failed_proof(result, result.preflight)
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
    if result.error is not None and not shown:
        if result.outcome != "unreachable":
            yield styled(f"    {result.error.message}", fg="red")
        if result.error.fix:
            yield f"    fix: {result.error.fix}"
    yield from blocked_lines(result)


def _after_failed_proof(result: HostResult, found: HostFound) -> Iterator[str]:
    """What was left in place, what to declare, what not to do."""
    if result.outcome == "changed" and result.plan.meaning:
        yield f"    In place: {', '.join(result.plan.meaning)}"
    elif result.outcome == "converged":
        yield "    Nothing was changed; the settings are as declared"
    if result.has_stopgap:
        yield "    NCCL does not use what failed, as declared;"
        yield "    vLLM also needs --disable-custom-all-reduce"
        yield '    To leave it so, untested: declare "p2p": "skip"'
    elif until := stopgap(found):
        yield f"    Do not train with P2P: declare {until} and run `rigops apply`,"
        yield "    until preflight passes; vLLM also needs --disable-custom-all-reduce"
    else:
        yield "    Do not count on P2P until preflight passes"
