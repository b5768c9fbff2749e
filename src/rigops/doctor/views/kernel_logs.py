"""How far the kernel logs can be trusted: what is not in them may still have happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.kernel_log_previous import SECTION as KERNEL_LOG_PREVIOUS

if TYPE_CHECKING:
    import re

    from rigops.probe.kernel_log import KernelLog, LogLine
    from rigops.probe.section import Section
    from rigops.probe.snapshot import Answer, HostSnapshot

Which = Literal["current", "previous"]


SOURCES: Final[dict[Which, Section[KernelLog]]] = {
    "current": KERNEL_LOG,
    "previous": KERNEL_LOG_PREVIOUS,
}


@dataclass(frozen=True, kw_only=True)
class Read:
    """`gap`: why something may have happened that the log does not tell; empty for no such reason.

    It is grave where only a fault explains it: a lack of rights is none.
    """

    log: KernelLog | None
    gap: str = ""
    is_grave: bool = False


def read(snapshot: HostSnapshot, which: Which) -> Read:
    answer = snapshot[SOURCES[which]]
    gap = _gap(answer, which)
    # Without rights it may just be closed; where other sections had root, it could have been read.
    is_grave = answer.timed_out or (not answer.without_root and snapshot.had_root)
    return Read(log=answer.value, gap=gap, is_grave=bool(gap) and is_grave)


def _gap(answer: Answer[KernelLog], which: Which) -> str:
    log = answer.value
    if answer.timed_out:
        return "could not be read in time"
    if log is not None and answer.is_complete:
        if log.absent is not None:
            return "" if which == "previous" else "is not kept on this host"
        if log.is_a_log:
            return ""
        return "holds no line of a kernel" if log.unparsed else "is empty"
    if answer.without_root and answer.is_incomplete:
        return "cannot be read without root"
    return "was not collected" if log is None else "could not be read to its end"


def matching(snapshot: HostSnapshot, pattern: re.Pattern[str]) -> list[tuple[Which, LogLine]]:
    """Of both logs, the older first."""
    oldest_first: tuple[Which, ...] = ("previous", "current")
    return [
        (which, line)
        for which in oldest_first
        for line in snapshot[SOURCES[which]].or_empty.matching(pattern)
    ]
