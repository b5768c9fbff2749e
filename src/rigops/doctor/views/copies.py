"""What doctor says alike of snapshots and of archives."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.rigops_state import SECTION as RIGOPS_STATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rigops.doctor.examined import Examined

HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S

_FREE: Final = Fix(
    kind="hands",
    text="mount what is missing, or set the clock; to remove most copies at once, run "
    "`rigops backup HOST --prune-most`",
)


def held_back(what: str, sentences: Sequence[str]) -> Finding:
    """Of the last run: why it did not remove what `keep` no longer keeps."""
    if not sentences:
        return Finding("ok", f"no {what} is held back from pruning")
    evidence = (Evidence(RIGOPS_STATE.name, sentences[0]),)
    return Finding("warn", "; ".join(sentences), evidence, fix=_FREE)


def age_s(examined: Examined, at: str) -> float | None:
    epoch_s = examined.snapshot[BOOT].or_empty.epoch_s
    if epoch_s is None:
        return None
    return epoch_s - datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()


def span(seconds: float) -> str:
    if seconds < HOUR_S:
        return f"{max(0, int(seconds // 60))} min"
    if seconds < 2 * DAY_S:
        return f"{int(seconds // HOUR_S)} h"
    return f"{int(seconds // DAY_S)} days"
