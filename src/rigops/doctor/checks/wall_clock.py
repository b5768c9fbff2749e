"""The host's clock against the time of whoever looked."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Evidence, Finding, Remedy, saying
from rigops.guarding import clock

if TYPE_CHECKING:
    from rigops.probe.facts import HostFacts

TIME = "time"

_BOOT = "boot"
_LIMITS = "limits"


def time(examined: Examined) -> list[Finding]:
    facts = examined.facts
    asked, own = _collected_at(facts), facts.boot.epoch_s if facts.boot else None
    if asked is not None and own is not None:
        wrong = clock.wrong(own, asked)
        evidence = (Evidence(_BOOT, str(own)),)
        if wrong is not None:
            return [
                _finding(
                    "warn",
                    wrong.summary,
                    evidence,
                    why=wrong.breaks,
                    remedy=Remedy(kind="hands", text=wrong.cure),
                )
            ]
    keeps = facts.limits.ntp_synchronized if facts.limits else None
    said = facts.limits.said.get("ntp_synchronized", "") if facts.limits else ""
    kept = (Evidence(_LIMITS, said),) if said else ()
    if keeps is False:
        summary = "nothing has set the clock by the network since the last boot"
        return [_finding("info", summary, kept)]
    if asked is None or own is None:
        return [_finding("unknown", "what the host's clock says was not collected")]
    return [_finding("ok", "the clock is right", kept)]


def _collected_at(facts: HostFacts) -> float | None:
    try:
        return datetime.fromisoformat((facts.collected_at or "").replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


_finding = saying(TIME)


CHECKS = (
    Check(
        id=TIME,
        title="The clock is right",
        explanation=(
            "Compares `date` on the host with the time of the machine that looked. More than a day "
            "apart is a warning: certificates and apt's signatures then count as expired or as "
            "not yet valid. A service that keeps time and has not reached anybody yet is told."
        ),
        run=time,
    ),
)
