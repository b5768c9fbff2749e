"""Whether a redacted bundle is judged as the original is: only names may differ."""

from __future__ import annotations

from collections.abc import Callable

from rigops.catalog import Catalog
from rigops.doctor.finding import Evidence, Finding
from rigops.doctor.registry import CHECKS, examine
from rigops.probe.bundle import Bundle
from rigops.probe.bundles.redaction import Redaction
from rigops.probe.snapshot import HostSnapshot

Judged = tuple[tuple[object, ...], list[tuple[str, str]]]  # all but the evidence, and its lines


def find_change(
    original: Bundle, redacted: Bundle, redaction: Redaction, catalog: Catalog
) -> tuple[str, Evidence] | None:
    """The id of a check that finds something else, and the line that it does so by."""
    before, after = _apart(
        *(examine(HostSnapshot(one), None, catalog) for one in (original, redacted))
    )
    text = redaction.text
    expected = [_without_names(one, text, text) for one in before]
    found = [_without_names(one, text, lambda line, _: line) for one in after]
    changed = [
        *(
            one
            for one, known in zip(before, expected, strict=True)
            if not any(_is_same(known, other) for other in found)
        ),
        *(
            one
            for one, known in zip(after, found, strict=True)
            if not any(_is_same(other, known) for other in expected)
        ),
    ]
    if not changed and len(before) == len(after):
        return None
    first = (changed or before or after)[0]
    return first.id, first.evidence[0] if first.evidence else _changed_line(
        original, redacted, first.id
    )


def _apart(before: list[Finding], after: list[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Without those that are the same to the letter, names and all."""
    left = []
    for one in before:
        if one in after:
            after.remove(one)
        else:
            left.append(one)
    return left, after


def _is_same(before: Judged, after: Judged) -> bool:
    """A line that is secret as a whole says nothing any more, wherever it is evidence."""
    (finding, lines), (other, others) = before, after
    return (finding, len(lines)) == (other, len(others)) and all(
        known == found or found == (known[0], "***")
        for known, found in zip(lines, others, strict=True)
    )


def _without_names(
    finding: Finding, redact: Callable[[str], str], redact_line: Callable[[str, str], str]
) -> Judged:
    """All that counts. Our own prose may look like a name, so both sides are redacted there."""
    fix = finding.fix
    return (
        *(finding.id, finding.status, finding.essential),
        *map(redact, (finding.subject, finding.summary, finding.why, str(dict(finding.data)))),
        fix and (fix.kind, fix.concern, fix.is_declared),
        fix and redact(f"{fix.declare} {fix.text} {fix.by_hand}"),
    ), list(
        # Two may have been different in their secret alone.
        dict.fromkeys((one.section, redact_line(one.line, one.section)) for one in finding.evidence)
    )


def _changed_line(original: Bundle, redacted: Bundle, check_id: str) -> Evidence:
    """The first that redaction changed in what this check reads."""
    read = [one.name for check in CHECKS if check.id == check_id for one in check.sections]
    lines = (
        Evidence(name, line)
        for name in read
        if name in original.sections
        for line, other in zip(
            original.sections[name].text.split("\n"),
            redacted.sections[name].text.split("\n"),
            strict=False,
        )
        if line != other
    )
    return next(lines, Evidence(read[0] if read else "", ""))
