"""A report whose names are replaced, as in a redacted bundle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from rigops.doctor.acknowledging import without_author
from rigops.doctor.finding import Evidence, Finding
from rigops.errors import HostError

if TYPE_CHECKING:
    from rigops.doctor.host_report import HostReport
    from rigops.probe.bundles.redaction import Redaction


def without_names(report: HostReport, redaction: Redaction) -> HostReport:
    """`redaction` knows the host, and whom else the report may name."""
    text, error = redaction.text, report.error
    facts = {
        name: text(value) if isinstance(value, str) else value
        for name, value in report.facts.items()
    }
    return replace(
        report,
        host=redaction.host(report.host),
        facts=facts,
        findings=tuple(_finding(one, redaction) for one in report.findings),
        stories=tuple(replace(one, text=text(one.text)) for one in report.stories),
        error=error and HostError(error.kind, text(error.message), text(error.fix)),
        notes=tuple(map(text, report.notes)),
        decided_by=text(report.decided_by),
    )


def _finding(finding: Finding, redaction: Redaction) -> Finding:
    finding = without_author(finding)
    text, fix = redaction.text, finding.fix
    if fix:
        declare = {key: _value(value, text) for key, value in (fix.declare or {}).items()}
        by_hand = text(fix.by_hand)
        fix = replace(fix, text=text(fix.text), by_hand=by_hand, declare=declare or None)
    return replace(
        finding,
        summary=text(finding.summary),
        subject=text(finding.subject),
        why=text(finding.why),
        evidence=tuple(
            Evidence(one.section, text(one.line, one.section)) for one in finding.evidence
        ),
        fix=fix,
    )


def _value(value: object, text: Callable[[str], str]) -> object:
    """Of a declaration, such as names in a list."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        return {_value(key, text): _value(one, text) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(one, text) for one in value]
    return value
