"""One pass over a log of any size; only lines that may matter stay in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from rigops.probe.kernel_log import stamps
from rigops.probe.kernel_log.events import Events, KernelLog
from rigops.probe.kernel_log.log_line import LogLine
from rigops.probe.kernel_log.words import is_relevant, looks_like_the_kernel
from rigops.probe.text import lines

MOST_LINES: Final = 30_000
MOST_EVENTS: Final = 10_000
_MOST_UNPARSED: Final = 200
_LONGEST: Final = 2_000  # the kernel writes no more than 1 kB into a line

_LEFT_OUT: Final = re.compile(r"== (?P<count>[0-9]{1,15}) lines left out")
_ABSENT: Final = "== absent: "
_REPEATED: Final = re.compile(
    r"message repeated (?P<count>[0-9]{1,9}) times: \[ ?(?P<message>.*?)\]?"
)
_ALSO: Final = (
    "Suppressed ",
    "] error status/mask=",
    ": [10de:",
    "(EE) NVIDIA(",
    " key is rejected",
)  # in pastes; no host is asked for them
_LAST_REPEATED: Final = re.compile(
    r"(?:-{1,3} ?)?last message repeated (?P<count>[0-9]{1,9}) times?(?: ?-{1,3})?|"
    r"Suppressed (?P<more>[0-9]{1,9}) messages from (?:/?kernel|\(kernel\))\.?"
)
_BROKEN: Final = re.compile(
    r"NVRM: Xid \(|PCIe Bus Error|AER: |:\s{1,4}device \[[0-9a-f]{4}:[0-9a-f]{4}\] |AMD-Vi|DMAR"
)
REST_OF_LINE: Final = re.compile(
    r"(?:pid|name)=|GPU has fallen off|\((?:Non-)?Fatal\)|type=(?:Phys|Data|Trans)|"
    r"\((?:Receiver|Transmitter|Requester|Completer) ID\)|(?:error )?status/mask=|"
    r"received (?:from|for) [0-9a-f]{4}:|"
    r"\[IO_PAGE_FAULT|(?:domain|address|flags)=0x|Request device \[|fault addr"
)
_FIRST_WORDS: Final = ("Linux version ", "Command line: ", "Booting Linux on ")
_FIRST_LINES: Final = 5
_AT_BOOT_S: Final = 0.5
_LONG_AFTER_BOOT_S: Final = 120.0


def parse(text: str) -> KernelLog:
    reader = _Reader()
    for line in _unwrapped(lines(text)):
        reader.take(line)
    return reader.log()


def _unwrapped(found: Iterable[str]) -> Iterator[str]:
    """Lines that a mail program broke at 80 columns, where nothing else begins like their rest."""
    before = ""
    for each in found:
        line = each[:_LONGEST]
        rest = line.lstrip(" >\t")
        if REST_OF_LINE.match(rest) and _BROKEN.search(before) and len(before) < _LONGEST:
            before = f"{before.rstrip()} {rest.rstrip()}"
            continue
        yield before
        before = line
    yield before


class _BootCount:
    """Counts the boots in a log, line by line; `last` is the number of the current one."""

    def __init__(self) -> None:
        self.last = 0
        self.starts_at_boot: bool | None = None
        self._lines = 0  # of this boot
        self._before: stamps.Stamped | None = None

    def mark(self) -> None:
        """Journalctl marks the beginning of another boot."""
        if self._lines:
            self._next()

    def take(self, stamped: stamps.Stamped) -> None:
        if stamped.message.startswith("Linux version ") and self._is_another(stamped):
            self._next()
        self._lines += 1
        self._before = stamped
        if self._lines <= _FIRST_LINES and self.starts_at_boot is not True:
            self._judge(stamped)

    def _next(self) -> None:
        self.last += 1
        self._lines = 0
        self.starts_at_boot = None

    def _is_another(self, stamped: stamps.Stamped) -> bool:
        """Not where a second log file has the same boot: that one begins before."""
        if not self._lines or self._before is None or self._before.form != stamped.form:
            return False
        before, now = stamps.wall(self._before), stamps.wall(stamped)
        return before is not None and now is not None and now >= before

    def _judge(self, stamped: stamps.Stamped) -> None:
        seconds = stamped.seconds
        if stamped.message.startswith(_FIRST_WORDS) or (
            seconds is not None and seconds <= _AT_BOOT_S
        ):
            self.starts_at_boot = True
        elif self._lines == 1 and seconds is not None and seconds > _LONG_AFTER_BOOT_S:
            self.starts_at_boot = False


class _FileCount:
    """Counts the log files in a text: another one has other timestamps, or begins earlier."""

    def __init__(self) -> None:
        self.number = 0
        self._form: str | None = None
        self._clock: float | None = None

    def take(self, form: str | None, clock: float | None) -> None:
        if form is None:
            return
        is_earlier = clock is not None and self._clock is not None and clock < self._clock
        if self._form is not None and (form != self._form or is_earlier):
            self.number += 1
        self._form, self._clock = form, clock


class _Reader:
    def __init__(self) -> None:
        self._kept: list[LogLine] = []
        self._events = Events()
        self._clock = stamps.Clock()
        self._boots = _BootCount()
        self._seen: dict[tuple[object, ...], int] = {}
        self._file = _FileCount()
        self._unparsed: list[str] = []
        self._total = 0
        self._left_out = 0
        self._last: tuple[LogLine, bool] | None = None  # the line before, and whose it is
        self._absent: str | None = None
        self._first: tuple[int, stamps.Stamped] | None = None  # of the last boot, and its number

    def take(self, line: str) -> None:
        if not line or line.isspace():
            return
        if line.startswith(("== ", "-- ")):
            self._read_head(line)
            return
        stamped = stamps.read(line)
        # Not by the name of the host, which may be nvidia.
        said = stamped.message if stamped.is_kernels else stamped.message.partition(" ")[2]
        is_kept = is_relevant(said) or any(words in said for words in _ALSO)
        if stamped.form is None and not (is_kept and looks_like_the_kernel(stamped.message)):
            is_rest = line[0] in " \t" and self._total > 0  # of the line before
            if not is_rest and len(self._unparsed) < _MOST_UNPARSED:
                self._unparsed.append(line)
            return
        self._total += 1
        # dmesg -H gives most lines as what passed since the last one, so that none may be skipped.
        clock = self._clock.read(stamped) if is_kept or stamped.form in stamps.RELATIVE else None
        self._boots.take(stamped)
        if self._first is None or self._first[0] != self._boots.last:
            self._first = self._boots.last, stamped
        before, self._last = self._last, None
        if not is_kept:
            return
        entry, is_kernels = self._entry(line, stamped, clock), stamped.is_kernels
        self._file.take(stamped.form, entry.clock)
        again = _LAST_REPEATED.search(stamped.message)
        if again and before:
            count = int(again["count"] or again["more"])
            entry = replace(entry, message=before[0].message, repeated=count)
            is_kernels = before[1]
        self._last = entry, is_kernels
        self._keep(entry, is_kernels=is_kernels)

    def log(self) -> KernelLog:
        def counted_back(entry: LogLine) -> LogLine:
            last = self._boots.last
            return replace(entry, boot=entry.boot - last) if last else entry

        events = self._events
        return KernelLog(
            lines=tuple(map(counted_back, self._kept)),
            xids=tuple(replace(one, entry=counted_back(one.entry)) for one in events.xids),
            iommu_faults=tuple(
                replace(one, entry=counted_back(one.entry)) for one in events.faults
            ),
            ignored_cards=tuple(
                replace(one, entries=tuple(map(counted_back, one.entries)))
                for one in events.ignored.found
            ),
            link_errors=tuple(
                replace(
                    one,
                    logs={
                        form: replace(
                            log, first=counted_back(log.first), last=counted_back(log.last)
                        )
                        for form, log in one.logs.items()
                    },
                )
                for one in events.aer.found
            ),
            starts_at_boot=self._boots.starts_at_boot,
            total_lines=self._total,
            left_out=self._left_out,
            first_at=stamps.utc(self._first[1]) if self._first else None,
            absent=self._absent,
            unparsed=tuple(self._unparsed),
        )

    def _read_head(self, line: str) -> None:
        """Lines between those of the log: heads of the probe, and of journalctl."""
        if left_out := _LEFT_OUT.fullmatch(line.strip()):
            self._left_out += int(left_out["count"])
            self._total += int(left_out["count"])
        elif line.startswith(_ABSENT):
            self._absent = line.removeprefix(_ABSENT).strip()
        elif line.startswith(("-- Boot ", "-- Reboot --")):
            self._boots.mark()

    def _entry(self, line: str, stamped: stamps.Stamped, clock: float | None) -> LogLine:
        repeated = _REPEATED.fullmatch(stamped.message)
        return LogLine(
            message=stamps.without_inner(repeated["message"]) if repeated else stamped.message,
            line=line,
            at=stamps.utc(stamped),
            seconds=stamped.seconds,
            clock=stamped.seconds if stamped.seconds is not None else clock,
            form="up" if stamped.seconds is not None else stamped.form or "",
            repeated=int(repeated["count"]) if repeated else 1,
            boot=self._boots.last,
        )

    def _keep(self, entry: LogLine, *, is_kernels: bool) -> None:
        """The same line in several log files is one line; in one file it is one more."""
        mark = (entry.boot, entry.message, entry.clock, entry.repeated)
        if self._seen.get(mark, self._file.number) != self._file.number:
            return
        if len(self._kept) < MOST_LINES:
            self._seen[mark] = self._file.number
            self._kept.append(entry)
        if is_kernels and self._events.count < MOST_EVENTS:
            self._events.take(entry)
