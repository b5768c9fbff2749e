"""A parsed kernel log, as types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One line that may matter. `message` is without timestamp, host, priority and "kernel:"."""

    message: str
    line: str  # as the log has it: the evidence
    at: str | None = None  # RFC 3339 UTC where the log has year and zone
    seconds: float | None = None  # since that boot
    clock: float | None = None  # seconds on whatever clock the log keeps: for differences only
    repeated: int = 1  # "message repeated 3 times"
    boot: int = 0  # 0: of the last boot in the text, -1: of the one before


@dataclass(frozen=True, kw_only=True)
class Xid:
    number: int
    address: str | None  # in the kernel's spelling, function 0; None where the line names none
    entry: LogLine
    process: str | None = None
    detail: str = ""  # what follows the number and the process
    bus_drop: bool = False  # in words only: "fallen off the bus", with no Xid in the line


@dataclass(frozen=True, kw_only=True)
class IommuFault:
    """AMD-Vi IO_PAGE_FAULT or DMAR fault."""

    address: str | None  # the device that the IOMMU stopped
    entry: LogLine


@dataclass(frozen=True, kw_only=True)
class KernelLog:
    """Only lines that may matter: a log may have millions."""

    lines: tuple[LogLine, ...] = ()
    xids: tuple[Xid, ...] = ()
    iommu_faults: tuple[IommuFault, ...] = ()
    starts_at_boot: bool | None = None  # None: unknown; False: the beginning is lost
    total_lines: int = 0  # that were log lines, with those that were left out
    left_out: int = 0  # of the total: not sent by the host, or beyond the limit
    first_at: str | None = None  # of any line, RFC 3339 UTC
    absent: str | None = None  # why there is no such log on this host, as it reports
    unparsed: tuple[str, ...] = ()

    @property
    def is_a_log(self) -> bool:
        """Something was read, and it was not mostly something else."""
        return self.total_lines > 0 and len(self.unparsed) <= self.total_lines

    def matching(self, pattern: re.Pattern[str]) -> tuple[LogLine, ...]:
        return tuple(entry for entry in self.lines if pattern.search(entry.message))
