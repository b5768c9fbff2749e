"""Findings of a self-check, as the commands of concerns print them: pure.

A line is `finding<TAB>STATUS<TAB>ID<TAB>SUBJECT<TAB>SUMMARY` or `metric<TAB>NAME<TAB>VALUE`; others
have values that are judged in settings.py. Each problem is news once, and so is its end.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    Reported = dict[tuple[str, str], "Found"]  # by id and subject


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
        return dict(vars(self))


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


_PREFIX: Final = "rigops_"
_HELP: Final[Mapping[str, str]] = {
    "rigops_gpu_settings": "Settings of the GPUs that are declared.",
    "rigops_limit_drift": "Settings of the GPUs that are not as declared.",
    "rigops_guard_step": "Step that the thermal guard has taken, 0 is none.",
    "rigops_reboot_owed": "1 while something waits for a reboot.",
    "rigops_proof_age_seconds": "Age of the last passed proof of P2P.",
    "rigops_proof_failed": "1 while the last proof of P2P is one that failed.",
    "rigops_self_check_timestamp_seconds": "When the last daily self-check ended.",
    "rigops_self_check_problems": "Problems that the last daily self-check found.",
}


def exposition(findings: Iterable[Found], metrics: Mapping[str, float]) -> str:
    """Only what others lack: no utilization."""
    lines: list[str] = [
        "# HELP rigops_finding What rigops finds of this host, by its id in rigops doctor.",
        "# TYPE rigops_finding gauge",
    ]
    for one in findings:
        labels = {"id": one.id, "subject": one.subject, "status": one.status}
        shown = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
        lines.append(f"rigops_finding{{{shown}}} 1")
    named: dict[str, float] = {
        name if name.startswith(_PREFIX) else _PREFIX + name: value
        for name, value in metrics.items()
    }
    for name, value in sorted(named.items()):
        if name == "rigops_finding":
            continue
        lines.append(f"# HELP {name} {_HELP.get(name, 'Reported by a self-check of rigops.')}")
        lines.append(f"# TYPE {name} gauge")
        lines.append(f"{name} {value:.15g}")
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@dataclass(frozen=True)
class News:
    """`reported`: what is known once this message is delivered."""

    new: tuple[Found, ...]
    gone: tuple[Found, ...]
    reported: Reported

    def __bool__(self) -> bool:
        return bool(self.new or self.gone)

    @property
    def subject(self) -> str:
        if len(self.new) == 1:
            one = self.new[0]
            return f"{one.status}: {one.id}, {one.subject}: {one.summary}"
        if self.new:
            return f"{len(self.new)} new problems"
        if len(self.gone) == 1:
            return f"well again: {self.gone[0].id}, {self.gone[0].subject}"
        return f"{len(self.gone)} problems are gone"

    @property
    def text(self) -> str:
        parts = []
        if self.new:
            parts.append("New:\n" + as_text(self.new))
        if self.gone:
            parts.append("Gone:\n" + as_text(self.gone))
        return "\n".join(parts)


def news(reported: Reported, findings: Iterable[Found], silent: Collection[str]) -> News:
    """`silent`: sources that did not answer to the end: what those do not name is no news."""
    now = {(one.id, one.subject): one for one in findings}
    problems = {key: one for key, one in now.items() if not one.is_well}
    new = [
        one
        for key, one in problems.items()
        if key not in reported or rank(one.status) < rank(reported[key].status)
    ]
    kept = {key: one for key, one in reported.items() if key not in now and one.source in silent}
    gone = [one for key, one in reported.items() if key not in problems and key not in kept]
    new.sort(key=lambda one: (rank(one.status), one.id, one.subject))
    # A check that was unknown for a while is no news once it is known again.
    doubted = {key for key, one in problems.items() if one.status == "unknown" and key in reported}
    after = {key: reported[key] if key in doubted else one for key, one in problems.items()}
    return News(tuple(new), tuple(gone), {**kept, **after})


def parse_entries(entries: Iterable[Mapping[str, Any]]) -> Reported:
    found: Reported = {}
    for entry in entries:
        words = [str(entry.get(name, "")) for name in ("status", "id", "subject", "summary")]
        one = Found(words[0], words[1], words[2], words[3], str(entry.get("source", "")))
        found[one.id, one.subject] = one
    return found


def as_entries(reported: Reported) -> list[dict[str, str]]:
    return [one.as_json() for one in reported.values()]
