"""A parsed kernel log, and what matters in it to a rig, also where it spreads over lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe.address import normal
from rigops.probe.kernel_log.aer import AerLog, LinkErrors
from rigops.probe.kernel_log.ignored import IgnoredCard, IgnoredCards
from rigops.probe.kernel_log.log_line import LogLine

OFF_THE_BUS: Final = 79

_SUPPRESSED: Final = re.compile(
    r"(?P<function>[a-z_]{1,60}): (?P<count>[0-9]{1,9}) callbacks suppressed"
)
_AER_FUNCTION: Final = "aer_ratelimit"
_FAULT_FUNCTIONS: Final = ("amd_iommu_report_", "dmar_fault")

_ADDRESS: Final = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
_XID: Final = re.compile(
    rf"NVRM: Xid \((?:PCI:)?(?P<address>{_ADDRESS})[^()]{{0,40}}\): *(?P<number>[0-9]{{1,4}})\b"
    r"(?P<rest>.*)"
)
_PID: Final = re.compile(r",? *pid=(?P<pid>'?<unknown>'?|'?[0-9]{1,10}'?)")
_NAME: Final = re.compile(r",? *name=(?P<name>[^,]{0,64})")
_UNKNOWN: Final = "<unknown>"
_DROP: Final = re.compile(r"(?:NVRM|nvidia)\b.*fallen off the bus", re.IGNORECASE)
_HEAD_OF_DROP: Final = re.compile(rf"NVRM: The NVIDIA GPU (?P<address>{_ADDRESS})")
_LINES_OF_DROP: Final = 4
_ANY_ADDRESS: Final = re.compile(rf"(?<![0-9a-fA-F:])(?:PCI:)?(?P<address>{_ADDRESS})")
_AMD: Final = re.compile(r"\bIO_PAGE_FAULT\b")
_AMD_DEVICE: Final = re.compile(rf"\bdevice=(?P<address>{_ADDRESS})")
_DMAR: Final = re.compile(
    rf"DMAR: ?\[DMA (?:Read|Write)[^\]]{{0,40}}\] Request device \[(?P<address>{_ADDRESS})\]",
    re.IGNORECASE,
)


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
    ignored_cards: tuple[IgnoredCard, ...] = ()
    link_errors: tuple[LinkErrors, ...] = ()
    starts_at_boot: bool | None = None  # None: unknown; False: the beginning is lost
    total_lines: int = 0  # that were log lines, with those that were left out
    left_out: int = 0
    first_at: str | None = None  # of any line of the last boot, RFC 3339 UTC
    absent: str | None = None  # why there is no such log on this host, as it reports
    unparsed: tuple[str, ...] = ()

    @property
    def is_a_log(self) -> bool:
        """Something was read, and it was not mostly something else."""
        return self.total_lines > 0 and len(self.unparsed) <= self.total_lines

    def matching(self, pattern: re.Pattern[str]) -> tuple[LogLine, ...]:
        """Of the last boot in the text."""
        return tuple(one for one in self.lines if not one.boot and pattern.search(one.message))


def count(entries: Iterable[LogLine]) -> int:
    """How often it happened in one boot: the same log in two forms, dmesg's and journalctl's."""
    by_form: Counter[str] = Counter()
    for one in entries:
        by_form[one.form] += one.repeated
    return max(by_form.values(), default=0)


class Events:
    """Fed with the kernel's lines in their order."""

    def __init__(self) -> None:
        self.xids: list[Xid] = []
        self.faults: list[IommuFault] = []
        self.ignored = IgnoredCards()
        self.aer = AerLog()
        self._faults_before = 0  # that the kernel has suppressed before the first it shows
        self._head: tuple[str, int] | None = None  # of "fallen off the bus", and how old

    @property
    def count(self) -> int:
        return len(self.xids) + len(self.faults) + len(self.ignored.found)

    def take(self, entry: LogLine) -> None:
        suppressed = _SUPPRESSED.match(entry.message)
        if suppressed:
            self._take_suppressed(entry, suppressed["function"], int(suppressed["count"]))
            return
        xid, fault = self._xid(entry), _fault(entry)
        if xid:
            self.xids.append(xid)
        if fault:
            self.faults.append(_more(fault, self._faults_before))
            self._faults_before = 0
        self.ignored.take(entry)
        self.aer.take(entry)

    def _take_suppressed(self, entry: LogLine, function: str, count: int) -> None:
        """Of the same kind as those before it; the line names no device."""
        if function == _AER_FUNCTION:
            self.aer.take_suppressed(entry, count)
        elif function.startswith(_FAULT_FUNCTIONS):
            if self.faults and self.faults[-1].entry.boot == entry.boot:
                self.faults[-1] = _more(self.faults[-1], count)
            else:
                self._faults_before += count

    def _xid(self, entry: LogLine) -> Xid | None:
        if "NVRM" not in entry.message and "nvidia" not in entry.message:
            return None
        xid = _XID.match(entry.message)
        if xid:
            process, detail = _process(xid["rest"])
            return Xid(
                number=int(xid["number"]),
                address=_function_0(xid["address"]),
                entry=entry,
                process=process,
                detail=detail,
            )
        return self._drop(entry)

    def _drop(self, entry: LogLine) -> Xid | None:
        head = _HEAD_OF_DROP.match(entry.message)
        if head:
            self._head = (head["address"], 0)
        elif self._head:
            self._head = (self._head[0], self._head[1] + 1)
        if not _DROP.match(entry.message):
            return None
        named = _ANY_ADDRESS.search(entry.message)
        address = named["address"] if named else None
        if address is None and self._head and self._head[1] < _LINES_OF_DROP:
            address = self._head[0]
        self._head = None
        return Xid(
            number=OFF_THE_BUS,
            address=_function_0(address) if address else None,
            entry=entry,
            detail="fallen off the bus",
            bus_drop=True,
        )


def _more(fault: IommuFault, count: int) -> IommuFault:
    entry = fault.entry
    return replace(fault, entry=replace(entry, repeated=entry.repeated + count))


def _function_0(text: str) -> str | None:
    address = normal(text)
    return address and address.rpartition(".")[0] + ".0"


def _process(rest: str) -> tuple[str | None, str]:
    pid = _PID.match(rest)
    rest = rest[pid.end() :] if pid else rest
    name = _NAME.match(rest)
    rest = rest[name.end() :] if name else rest
    number = pid["pid"].strip("'") if pid else _UNKNOWN
    process = name["name"].strip() if name else _UNKNOWN
    if process in {"", _UNKNOWN}:
        process = "" if number == _UNKNOWN else f"pid {number}"
    return process or None, rest.strip(" ,")


def _fault(entry: LogLine) -> IommuFault | None:
    dmar = _DMAR.search(entry.message)
    if dmar:
        return IommuFault(address=normal(dmar["address"]), entry=entry)
    amd = _AMD.search(entry.message)
    if amd is None or "suppressed" in entry.message:
        return None
    # Newer kernels name the device before "AMD-Vi:", as for every message about a device.
    named = _AMD_DEVICE.search(entry.message, amd.end()) or _ANY_ADDRESS.search(
        entry.message, 0, amd.start()
    )
    return IommuFault(address=normal(named["address"]) if named else None, entry=entry)
