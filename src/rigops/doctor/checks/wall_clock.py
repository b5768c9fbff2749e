"""The host's clock against that of the machine that collected."""

from __future__ import annotations

from datetime import datetime

from rigops.concerns.preconditions import clock
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.limits import SECTION as LIMITS
from rigops.probe.snapshot import HostSnapshot


@Check("time", needs_gpu=False, needs=(BOOT, LIMITS), fixes=("hands",))
def time(examined: Examined) -> Finding:
    """The clock is right.

    Compares `date` on the host with the time of the probing machine. More than a day apart is a
    warning: certificates and apt's signatures then count as expired or as not yet valid. A time
    service that has not synchronized yet is information.
    """
    snapshot = examined.snapshot
    asked, own = _collected_at(snapshot), snapshot[BOOT].or_empty.epoch_s
    if asked is not None and own is not None:
        wrong = clock.wrong(own, asked)
        evidence = (Evidence(BOOT.name, str(own)),)
        if wrong is not None:
            return Finding(
                "warn",
                wrong.summary,
                evidence,
                why=wrong.breaks,
                fix=fix_by_hand(wrong.fix),
            )
    keeps = snapshot[LIMITS].or_empty.ntp_synchronized
    line = snapshot[LIMITS].or_empty.raw.get("ntp_synchronized", "")
    shown = (Evidence(LIMITS.name, line),) if line else ()
    if keeps is False:
        summary = "nothing has set the clock by the network since the last boot"
        return Finding("info", summary, shown)
    if asked is None or own is None:
        return Finding("unknown", "the host's clock was not collected")
    return Finding("ok", "the clock is right", shown)


def _collected_at(snapshot: HostSnapshot) -> float | None:
    try:
        return datetime.fromisoformat(
            (snapshot.collected_at or "").replace("Z", "+00:00")
        ).timestamp()
    except ValueError:
        return None
