"""Backups of hosts as rows of the closing table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rigops.report.closing import Row, Step, error_words, step_after

if TYPE_CHECKING:
    from rigops.hosts.engines import HostAnswer


def backup_rows(answers: Sequence[HostAnswer]) -> list[Row]:
    return [_row(answer) for answer in answers]


def _row(answer: HostAnswer) -> Row:
    host, error = answer.host, answer.error
    if error is not None and answer.status == "unknown":
        word, why = error_words(error, host)
        return Row(host, "unknown", word, why, step_after(error, "backup"))
    if error is not None or answer.status == "fail":
        why = error.message if error is not None else _reason(answer.value)
        return Row(host, "fail", "FAIL", why, Step("snapshots"))
    if answer.status == "warn":
        return Row(host, "warn", "warn", "archives to heal", Step("backup", ("--heal", "--yes")))
    return Row(host, "ok", "ok")


def _reason(done: Mapping[str, Any]) -> str:
    """Of a backup the first error, of a drill its own."""
    errors = done.get("errors") or ()
    return str(errors[0]["message"] if errors else done.get("error") or done.get("result") or "")
