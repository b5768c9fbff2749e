"""What nvidia-smi tells of each card, judged card by card, and what it does not tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from rigops.doctor import views
from rigops.doctor.finding import Evidence, Finding
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Collection, Mapping

    from rigops.doctor.check import Examined
    from rigops.doctor.finding import Fix, Status
    from rigops.doctor.views.cards import Card
    from rigops.probe.smi.report import SmiGpu

    Judge = Callable[[Card, SmiGpu], "Verdict"]

_SHOWN_FAILURES: Final = 3
_MOST_LINES: Final = 6
_INACTIVE: Final = "Not Active"
_NOT_JUDGED: Final = frozenset({"not_reported", "skipped"})

_FAILURES: Final = {
    "no-driver": "nvidia-smi cannot reach the driver",
    "mismatch": "nvidia-smi and the loaded driver are of different versions",
    "no-devices": "nvidia-smi found no device",
    "no-library": "nvidia-smi found no libnvidia-ml.so",
    "lost": "nvidia-smi gave up because a card is lost",
    "not-installed": "there is no nvidia-smi",
    "other": "nvidia-smi failed",
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One check on one card. `expected`: where it is not reported, no card of this model does."""

    status: Status | Literal["not_reported"]
    summary: str
    why: str = ""
    fix: Fix | None = None
    evidence: tuple[Evidence, ...] = ()
    data: Mapping[str, object] = field(default_factory=dict)
    expected: bool = False


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Why not every card can be judged."""

    summary: str
    evidence: tuple[Evidence, ...] = ()


def gap(examined: Examined) -> Gap | None:
    """None where nvidia-smi has told everything about every card."""
    snapshot, report = examined.snapshot, examined.snapshot[SMI].value
    if report is None:
        timed_out = snapshot[SMI].timed_out
        return Gap(
            summary="nvidia-smi did not answer in time"
            if timed_out
            else "nvidia-smi's output was not collected"
        )
    if report.failure:
        cited = report.failure_lines[:_SHOWN_FAILURES]
        return Gap(
            summary=_FAILURES[report.failure],
            evidence=tuple(Evidence(SMI.name, line) for line in cited),
        )
    if not report.is_complete or not snapshot[SMI].is_complete:
        return Gap(summary="nvidia-smi's output is cut off")
    silent = [card.address for card in examined.cards if card.smi is None]
    if silent:
        return Gap(summary=f"nvidia-smi does not report {', '.join(silent)}")
    count = max(len(report.gpus), report.attached or 0, views.gpu_count(examined) or 0)
    if count > len(examined.cards) or not examined.cards:
        return Gap(summary=f"nvidia-smi reports {len(examined.cards)} of {count} cards")
    return None


def judge_cards(
    examined: Examined,
    judge: Judge,
    well: str,
    *,
    evidence: re.Pattern[str] | None = None,
) -> list[Finding]:
    """`evidence` matches the last parts of the paths of the values that `judge` looks at.

    What is not well, card by card, or one finding that says that all is.
    """
    said = [(card, judge(card, card.smi)) for card in examined.cards if card.smi]
    speaking = {card.name for card, verdict in said if verdict.status not in _NOT_JUDGED}
    found = [
        _finding(card, verdict, evidence)
        for card, verdict in said
        if verdict.status not in {"ok", *_NOT_JUDGED} or _should_speak(card, verdict, speaking)
    ]
    missing = gap(examined)
    if missing:
        found.append(Finding("unknown", missing.summary, missing.evidence))
    return found or [_well([verdict for _, verdict in said], well)]


def _should_speak(card: Card, verdict: Verdict, speaking: Collection[str]) -> bool:
    """Its like does, or others do and it is not known for its silence."""
    if verdict.status != "not_reported":
        return False
    return card.name in speaking or bool(speaking and not verdict.expected)


def _finding(card: Card, verdict: Verdict, pattern: re.Pattern[str] | None) -> Finding:
    own = [Evidence(SMI.name, line) for line in _lines(card.smi, pattern)] if card.smi else []
    return Finding(
        "unknown" if verdict.status == "not_reported" else verdict.status,
        verdict.summary,
        (*own, *verdict.evidence),
        subject=card.subject,
        why=verdict.why,
        fix=verdict.fix,
        data=verdict.data,
    )


def _lines(smi: SmiGpu, pattern: re.Pattern[str] | None) -> list[str]:
    """The line that names the card, and those of the values that were looked at."""
    told = [
        line
        for path, line in smi.said.items()
        if pattern and pattern.search(path) and _INACTIVE not in line
    ]
    return [line for line in (smi.line, *told[:_MOST_LINES]) if line]


def _well(verdicts: list[Verdict], well: str) -> Finding:
    healthy = [verdict for verdict in verdicts if verdict.status == "ok"]
    if not healthy:
        first = verdicts[0]
        return Finding("skipped", first.summary, why=first.why)
    others = len(verdicts) - len(healthy)
    return Finding(
        "ok",
        f"{well} ({len(healthy)} of {len(verdicts)} cards report it)" if others else well,
        why=next((verdict.why for verdict in healthy if verdict.why), ""),
    )


def is_geforce(card: Card) -> bool:
    """Whose driver keeps to itself what it tells of other cards."""
    return "geforce" in card.name.lower()
