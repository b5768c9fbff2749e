"""Hosts of a plan, an apply or a backup as rows of the closing table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rigops.hostside.p2p.verdict import UNKNOWN
from rigops.preflight.headline import failure_text
from rigops.report.closing import Row, Step, error_words, step_after

if TYPE_CHECKING:
    from rigops.converge.result import HostResult
    from rigops.hosts.engines import HostAnswer

_APPLY: Final = Step("apply")
_CUT_SHORT: Final = {"interrupted": "interrupted", "not_run": "not touched"}
_WORDS: Final = {"changed": "changed", "converged": "as declared"}


def plan_rows(results: Sequence[HostResult]) -> list[Row]:
    return _without_plan([_plan_row(result) for result in results])


def apply_rows(results: Sequence[HostResult]) -> list[Row]:
    return _without_plan([_apply_row(result) for result in results])


def _without_plan(rows: list[Row]) -> list[Row]:
    """One host is shown in full, so that another plan of it says no more."""
    if len(rows) > 1:
        return rows
    return [replace(row, step=None) if row.step == Step("plan") else row for row in rows]


def _plan_row(result: HostResult) -> Row:
    if result.error is not None:
        return _error_row(result, "no plan", "plan")
    if result.blocked:
        return _blocked_row(result, "partly" if result.pending else "blocked")
    if result.pending:
        meaning = ", ".join(result.plan.meaning)
        reboot = "1 reboot" if result.reboot_reasons else ""
        return Row(
            result.host, "warn", "changes", ", ".join(filter(None, (meaning, reboot))), _APPLY
        )
    if result.unfixed:
        return Row(result.host, "warn", "not declared", ", ".join(result.unfixed), Step("fix"))
    if result.preflight_reason:
        return Row(result.host, "warn", "not proven", result.preflight_reason, _APPLY)
    return Row(result.host, "ok", "as declared")


def _apply_row(result: HostResult) -> Row:
    row = _failed_row(result) or _unfinished_row(result)
    if row is not None:
        return row
    found = result.preflight
    proven = f"proven {found.level}" if found is not None and found.level else ""
    nothing = found.nothing_to_prove if found is not None else ""
    return Row(result.host, "ok", _WORDS[result.outcome], nothing or proven)


def _failed_row(result: HostResult) -> Row | None:
    host, found = result.host, result.preflight
    if found is not None and result.has_failed_proof:
        return Row(host, "fail", "FAIL", f"P2P: {failure_text(found)}", Step("doctor"))
    if result.error is not None:
        return _error_row(result, "FAIL", "apply")
    if result.blocked:
        return _blocked_row(result, "refused" if result.outcome == "refused" else "partly")
    if result.outcome in _CUT_SHORT:
        return Row(host, "fail", _CUT_SHORT[result.outcome], step=_APPLY)
    return None


def _unfinished_row(result: HostResult) -> Row | None:
    host, found = result.host, result.preflight
    if result.waits_for:
        return Row(host, "warn", "waits", f"not rebooted: {result.waits_for}", _APPLY)
    if result.outcome == "reboot_owed":
        return Row(host, "warn", "reboot pending", "; ".join(result.reboot_reasons), _APPLY)
    if result.withheld:
        named = ", ".join(one.concern for one in result.withheld)
        step = Step("apply", ("--prune",))
        return Row(host, "warn", "kept", f"{named}: no longer declared", step)
    if found is not None and found.status == UNKNOWN:
        why = next(iter(found.reasons), "") or (found.error.message if found.error else "")
        return Row(host, "unknown", "not proven", why, Step("preflight"))
    return None


def _error_row(result: HostResult, failed: str, command: str) -> Row:
    error = result.error
    assert error is not None  # noqa: S101 - for the type checker
    if result.outcome == "unreachable":
        word, why = error_words(error, result.host)
        return Row(result.host, "unknown", word, why, step_after(error, command))
    return Row(result.host, "fail", failed, error.message, Step(command))


def _blocked_row(result: HostResult, word: str) -> Row:
    first = result.blocked[0]
    reason = f"{first.concern}: {first.reason}"
    more = len(result.blocked) - 1
    return Row(
        result.host, "fail", word, f"{reason}, and {more} more" if more else reason, Step("plan")
    )


def backup_rows(answers: Sequence[HostAnswer]) -> list[Row]:
    return [_backup_row(answer) for answer in answers]


def _backup_row(answer: HostAnswer) -> Row:
    host, error = answer.host, answer.error
    if error is not None and answer.status == "unknown":
        word, why = error_words(error, host)
        return Row(host, "unknown", word, why, step_after(error, "backup"))
    if error is not None or answer.status == "fail":
        why = error.message if error is not None else _backup_reason(answer.value)
        return Row(host, "fail", "FAIL", why, Step("snapshots"))
    if answer.status == "warn":
        return Row(host, "warn", "warn", "archives to heal", Step("backup", ("--heal", "--yes")))
    return Row(host, "ok", "ok")


def _backup_reason(done: Mapping[str, Any]) -> str:
    """Of a backup the first error, of a drill its own."""
    errors = done.get("errors") or ()
    return str(errors[0]["message"] if errors else done.get("error") or done.get("result") or "")
