"""A line of a kernel log."""

from __future__ import annotations

from rigops.dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One line that may matter. `message` is without timestamp, host, priority and "kernel:"."""

    message: str
    line: str  # as the log has it: the evidence
    at: str | None = None  # RFC 3339 UTC where the log has year and zone
    seconds: float | None = None  # since that boot
    clock: float | None = None  # seconds on whatever clock the log keeps: for differences only
    form: str = ""  # of its time stamp: that of several logs tells their lines apart
    repeated: int = 1  # "message repeated 3 times"; of an event with those that were suppressed
    boot: int = 0  # 0: of the last boot in the text, -1: of the one before
