"""What nvidia-smi tells of each card, judged card by card, and what it does not tell."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from rigops.doctor import rig
from rigops.doctor.finding import Evidence, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from rigops.doctor.check import Examined
    from rigops.doctor.finding import Remedy, Status
    from rigops.doctor.rig.cards import Card
    from rigops.probe.sections.nvidia_smi_xml import SmiGpu

    Judge = Callable[[Card, SmiGpu], "Verdict"]

SECTION: Final = "nvidia-smi-xml"
_SHOWN_FAILURES: Final = 3
# The values that a check looks at, by the last parts of their paths: its evidence.
_LOOKED_AT: Final = {
    "pwr.limit": re.compile(r"power_readings.*power_limit"),
    "remap": re.compile(r"remapped_rows/"),
    "retired": re.compile(r"retired_pages/"),
    "ecc.vol": re.compile(r"ecc_errors/volatile/.*(uncorr|double_bit/total)"),
    "ecc.agg": re.compile(r"ecc_errors/aggregate/.*(uncorr|double_bit/total)"),
    "ecc.corr": re.compile(r"ecc_errors/aggregate/.*(_corr|single_bit/total)"),
    "clk.throttle": re.compile(r"clocks_(throttle|event)_reasons/"),
    "clk.app": re.compile(r"(^|/)(applications_)?clocks/"),
    "clk.lost": re.compile(r"^(max_)?clocks/"),
    "tmp.core": re.compile(r"temperature/gpu_(temp$|current|slow|temp_slow)"),
    "tmp.mem": re.compile(r"temperature/.*mem"),
    "tmp.fan": re.compile(r"fan_speed$|temperature/gpu_(temp|current_temp)$"),
}
_MOST_LINES: Final = 6
_INACTIVE: Final = "Not Active"
_SAYS_NOTHING: Final = frozenset({"silent", "skipped"})

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
    """One check on one card. `silent`: the card does not tell; `expected`: its model never does."""

    status: Status | Literal["silent"]
    summary: str
    why: str = ""
    remedy: Remedy | None = None
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
    facts, report = examined.facts, examined.facts.nvidia_smi_xml
    if report is None:
        timed_out = SECTION in facts.timed_out
        return Gap(
            summary="nvidia-smi did not answer in time"
            if timed_out
            else "what nvidia-smi says was not collected"
        )
    if report.failure:
        cited = report.failure_lines[:_SHOWN_FAILURES]
        return Gap(
            summary=_FAILURES[report.failure],
            evidence=tuple(Evidence(SECTION, line) for line in cited),
        )
    if not report.is_whole or not facts.is_whole(SECTION):
        return Gap(summary="what nvidia-smi says is cut off")
    silent = [card.address for card in examined.cards if card.smi is None]
    if silent:
        return Gap(summary=f"nvidia-smi does not report {', '.join(silent)}")
    count = max(len(report.gpus), report.attached or 0, rig.gpu_count(examined) or 0)
    if count > len(examined.cards) or not examined.cards:
        return Gap(summary=f"nvidia-smi tells of {len(examined.cards)} of {count} cards")
    return None


def judged(examined: Examined, check: str, judge: Judge, well: str) -> list[Finding]:
    """What is not well, card by card, or one finding that says that all is."""
    if rig.has_no_gpu(examined):
        return [Finding(id=check, status="skipped", summary="there is no NVIDIA GPU")]
    said = [(card, judge(card, card.smi)) for card in examined.cards if card.smi]
    speaking = {card.name for card, verdict in said if verdict.status not in _SAYS_NOTHING}
    found = [
        _finding(check, card, verdict)
        for card, verdict in said
        if verdict.status not in {"ok", *_SAYS_NOTHING} or _should_speak(card, verdict, speaking)
    ]
    missing = gap(examined)
    if missing:
        found.append(
            Finding(id=check, status="unknown", summary=missing.summary, evidence=missing.evidence)
        )
    return found or [_well(check, [verdict for _, verdict in said], well)]


def _should_speak(card: Card, verdict: Verdict, speaking: Collection[str]) -> bool:
    """Its like does, or others do and it is not known for its silence."""
    if verdict.status != "silent":
        return False
    return card.name in speaking or bool(speaking and not verdict.expected)


def _finding(check: str, card: Card, verdict: Verdict) -> Finding:
    own = [Evidence(SECTION, line) for line in _lines(check, card.smi)] if card.smi else []
    return Finding(
        id=check,
        status="unknown" if verdict.status == "silent" else verdict.status,
        summary=verdict.summary,
        subject=card.subject,
        evidence=(*own, *verdict.evidence),
        why=verdict.why,
        remedy=verdict.remedy,
        data=verdict.data,
    )


def _lines(check: str, smi: SmiGpu) -> list[str]:
    """The line that names the card, and those of the values that were looked at."""
    looked_at = _LOOKED_AT.get(check)
    told = [
        line
        for path, line in smi.said.items()
        if looked_at and looked_at.search(path) and _INACTIVE not in line
    ]
    return [line for line in (smi.line, *told[:_MOST_LINES]) if line]


def _well(check: str, verdicts: list[Verdict], well: str) -> Finding:
    healthy = [verdict for verdict in verdicts if verdict.status == "ok"]
    if not healthy:
        first = verdicts[0]
        return Finding(id=check, status="skipped", summary=first.summary, why=first.why)
    others = len(verdicts) - len(healthy)
    return Finding(
        id=check,
        status="ok",
        summary=f"{well} ({len(healthy)} of {len(verdicts)} cards tell)" if others else well,
        why=next((verdict.why for verdict in healthy if verdict.why), ""),
    )


def is_geforce(card: Card) -> bool:
    """Whose driver keeps to itself what it tells of other cards."""
    return "geforce" in card.name.lower()
