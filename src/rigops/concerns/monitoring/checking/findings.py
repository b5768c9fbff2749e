"""Findings of a self-check, as the commands of concerns print them: pure.

A line is `finding<TAB>STATUS<TAB>ID<TAB>SUBJECT<TAB>SUMMARY` or `metric<TAB>NAME<TAB>VALUE`; others
have values that are judged in settings.py.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

GRAVEST_FIRST: Final = ("fail", "unknown", "warn", "ok")
OWN_ID: Final = "rigops.selfcheck"
_MOST_FINDINGS: Final = 200  # of one command
_LONGEST: Final = 300
_ID = re.compile(r"[a-z0-9][a-z0-9_.]{0,60}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,80}")


@dataclass(frozen=True)
class Found:
    """`source`: whose command found it."""

    status: str
    id: str
    subject: str
    summary: str
    source: str

    @property
    def is_well(self) -> bool:
        return self.status == "ok"

    def as_json(self) -> dict[str, str]:
        return {
            "status": self.status,
            "id": self.id,
            "subject": self.subject,
            "summary": self.summary,
            "source": self.source,
        }


@dataclass
class Answer:
    """The findings of one source. `is_whole`: anything that it does not name is ok."""

    findings: list[Found] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    is_whole: bool = True


def clean(text: str) -> str:
    """One line for a terminal, a label or a message, of untrusted text."""
    shown = "".join(one if one.isprintable() else " " for one in text)
    return " ".join(shown.split())[:_LONGEST]


def unknown(source: str, summary: str) -> Answer:
    """Of a source that cannot be asked, or did not answer."""
    return Answer([Found("unknown", OWN_ID, source, clean(summary), source)], is_whole=False)


def parse_answer(source: str, output: str) -> Answer:
    """Never raises. A line that is not understood is unknown, and none of them too."""
    answer = Answer()
    rest: list[str] = []
    for line in output.splitlines():
        words = line.split("\t", 4)
        if words[0] == "finding" and len(words) == 5 and words[1] in GRAVEST_FIRST:  # noqa: PLR2004 - its columns
            _, status, name, subject, summary = words
            if _ID.fullmatch(name) and len(answer.findings) < _MOST_FINDINGS:
                found = Found(status, name, clean(subject), clean(summary), source)
                answer.findings.append(found)
                continue
        if words[0] == "metric" and len(words) == 3 and _NAME.fullmatch(words[1]):  # noqa: PLR2004 - its columns
            value = _number(words[2])
            if value is not None:
                answer.metrics[words[1]] = value
                continue
        if line.strip():
            rest.append(line)
    if not answer.findings and not answer.metrics and not rest:
        rest.append("it printed nothing")
    if rest:
        trouble = unknown(source, "output of its check: " + rest[0])
        answer.findings += trouble.findings
        answer.is_whole = False
    if any(one.status == "unknown" for one in answer.findings):
        answer.is_whole = False
    return answer


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def merged(findings: Iterable[Found]) -> list[Found]:
    """One of each id and subject, with the gravest status, gravest first."""
    by_key: dict[tuple[str, str], Found] = {}
    for one in findings:
        key = (one.id, one.subject)
        other = by_key.get(key)
        if other is None or rank(one.status) < rank(other.status):
            by_key[key] = one
        elif one.status == other.status and one.summary != other.summary:
            summary = clean(other.summary + "; " + one.summary)
            by_key[key] = Found(one.status, one.id, one.subject, summary, other.source)
    return sorted(by_key.values(), key=lambda one: (rank(one.status), one.id, one.subject))


def rank(status: str) -> int:
    return GRAVEST_FIRST.index(status)


def gravest(findings: Iterable[Found]) -> str:
    """Without any finding nothing is known."""
    return min((one.status for one in findings), key=rank, default="unknown")


def as_text(findings: Iterable[Found]) -> str:
    rows = [(one.status, one.id, one.subject, one.summary) for one in findings]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(3)]
    return "".join(
        "  ".join([*(row[at].ljust(widths[at]) for at in range(3)), row[3]]) + "\n" for row in rows
    )
