"""Values of nvidia-smi, judged card by card, and missing ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Final

from rigops.dataclass import dataclass
from rigops.doctor import views
from rigops.doctor.card import Card
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding
from rigops.doctor.views.cards import lost_cards
from rigops.probe.lost_cards import sentence
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.smi.report import SmiGpu

if TYPE_CHECKING:
    from rigops.doctor.check import Run

    Judge = Callable[[Examined, Card, SmiGpu], "Finding | NotReported"]

_SHOWN_FAILURES: Final = 3
_MOST_LINES: Final = 6
_MOST_VALUES: Final = 8
_NUMBER: Final = re.compile(r"[0-9]")
_INACTIVE: Final = "Not Active"

_FAILURES: Final = {
    "no-driver": "nvidia-smi cannot reach the driver",
    "mismatch": "nvidia-smi and the loaded driver are of different versions",
    "no-devices": "nvidia-smi found no device",
    "not-started": "nvidia-smi does not find a card that the driver could not start",
    "no-library": "nvidia-smi found no libnvidia-ml.so",
    "not-installed": "there is no nvidia-smi",
    "other": "nvidia-smi failed",
}


@dataclass(frozen=True)
class NotReported:
    """A card does not report what a check judges. `expected`: no card of this model does."""

    summary: str
    why: str = ""
    expected: bool = False


def gap(examined: Examined) -> Finding | None:
    """Why not every card can be judged."""
    snapshot, report = examined.snapshot, examined.snapshot[SMI].value
    if report is None:
        is_late = snapshot[SMI].timed_out
        return Finding(
            "unknown",
            "nvidia-smi did not answer in time"
            if is_late
            else "nvidia-smi's output was not collected",
        )
    if report.failure:
        cited = report.failure_lines[:_SHOWN_FAILURES]
        evidence = tuple(Evidence(SMI.name, line) for line in cited)
        why = _FAILURES.get(report.failure, "")
        if report.failure == "lost":
            lost = sentence(lost_cards(examined).values())
            why = f"{lost}, and nvidia-smi reports no card until the reboot"
        return Finding("unknown", why, evidence)
    if not report.is_complete or not snapshot[SMI].is_complete:
        return Finding("unknown", "nvidia-smi's output is incomplete")
    absent = [card.address for card in examined.cards if card.smi is None]
    if absent:
        return Finding("unknown", f"nvidia-smi does not report {', '.join(absent)}")
    count = max(len(report.gpus), report.attached or 0, views.gpu_count(examined) or 0)
    if count > len(examined.cards) or not examined.cards:
        return Finding("unknown", f"nvidia-smi reports {len(examined.cards)} of {count} cards")
    return None


def each_card(summary: str, *, evidence: str = "") -> Callable[[Judge], Run]:
    """A check of a judgement of one card: the cards that are not ok, or one finding with `summary`.

    `evidence` is a pattern of the last parts of the paths of the values that it looks at.
    """

    def check_of(judge: Judge) -> Run:
        return wraps(judge)(
            lambda examined: judge_cards(examined, judge, summary, evidence=evidence)
        )

    return check_of


def judge_cards(examined: Examined, judge: Judge, summary: str, *, evidence: str) -> list[Finding]:
    judged = [
        (card, judge(examined, card, card.smi), card.smi) for card in examined.cards if card.smi
    ]
    healthy = [one for _, one, _ in judged if isinstance(one, Finding) and one.status == "ok"]
    reporting = {
        card.name for card, one, _ in judged if isinstance(one, Finding) and one.status != "skipped"
    }
    found = []
    for card, one, smi in judged:
        if isinstance(one, Finding):
            if one.status not in {"ok", "skipped"}:
                found.append(_of_card(card, smi, one, evidence))
        elif card.name in reporting or (reporting and not one.expected):
            found.append(
                _of_card(card, smi, Finding("unknown", one.summary, why=one.why), evidence)
            )
    missing = gap(examined)
    if missing and not (healthy and _is_pasted_whole(examined)):
        found.append(missing)
    if found:
        return found
    if not healthy:
        return [Finding("skipped", judged[0][1].summary, why=judged[0][1].why)]
    values = [f"{len(healthy)} of {len(judged)} cards report it"] * (len(healthy) < len(judged))
    values += dict.fromkeys(one.summary for one in healthy if _NUMBER.search(one.summary))
    if values:
        summary = f"{summary} ({', '.join(values[:_MOST_VALUES])})"
    return [Finding("ok", summary, why=next((one.why for one in healthy if one.why), ""))]


def _is_pasted_whole(examined: Examined) -> bool:
    """Some outputs of nvidia-smi have no end that would show; one that was cut is noticed."""
    paste = examined.snapshot.bundle.paste
    return paste is not None and not paste.cut and not examined.snapshot[SMI].or_empty.failure


def _of_card(card: Card, smi: SmiGpu, finding: Finding, pattern: str) -> Finding:
    """With the line that names the card, and those of the values that were looked at."""
    values = [
        line
        for path, line in smi.raw.items()
        if pattern and re.search(pattern, path) and _INACTIVE not in line
    ]
    lines = (smi.line, *values[:_MOST_LINES])
    own = tuple(Evidence(SMI.name, line) for line in lines if line)
    return replace(finding, subject=card.subject, evidence=(*own, *finding.evidence))


def is_geforce(card: Card) -> bool:
    """The driver reports less of these."""
    return "geforce" in card.name.lower()
