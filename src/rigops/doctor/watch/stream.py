"""Lines of hostside/watch.sh, put together to samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final

from rigops.dataclass import dataclass
from rigops.numbers import whole
from rigops.probe.sections import aer, nvidia_smi_xml
from rigops.probe.sections.aer import AerDevice
from rigops.probe.smi import query
from rigops.probe.smi.report import SmiGpu, SmiReport

MOST_CARDS: Final = 256  # a host that sends more is no rig
_MOST_LINES: Final = 4096  # of one source that wait for others
_LONGEST: Final = 4096
_COUNT: Final = "count"
_LATE_S: Final = 3.0


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A host at one moment. `report`: None while nvidia-smi prints nothing, for `silent_s`.

    `links`: error counters that are not zero; None before they were read. `functions`: of each
    card, itself and the bridges above it. `log`: the driver's new lines in the kernel log.
    """

    boot: str
    uptime_s: float | None
    report: SmiReport | None
    silent_s: float = 0.0
    links: tuple[AerDevice, ...] | None = None
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    has_log: bool = True


class Stream:
    """Of one connection. A sample is complete with the row of the last card."""

    def __init__(self, seconds: int) -> None:
        self._late_s = 2 * seconds + _LATE_S
        self._boot = ""
        self._uptime_s: float | None = None
        self._heard_s: float | None = None  # the uptime when nvidia-smi last printed something
        self._functions: dict[str, tuple[str, ...]] = {}
        self._thresholds: list[str] = []
        self._head = ""
        self._ended: SmiReport | None = None  # the last before nvidia-smi ended
        self._rows: list[str] = []
        self._rows_before = 0
        self._counters: list[str] = []
        self._links: tuple[AerDevice, ...] | None = None
        self._log: list[str] = []
        self._has_log = True

    def take(self, line: str) -> Sample | None:
        source, _, text = line[:_LONGEST].partition(" ")
        if source == "q":
            return self._take_row(text)
        if source == "t":
            return self._tick(text)
        if source == "h":
            self._boot = text
        elif source == "c" and len(self._functions) < MOST_CARDS:
            address, *functions = text.split() or [""]
            self._functions[address] = tuple(functions)
        elif source == "d":
            _add(self._thresholds, text)
        elif source == "e":
            _add(self._counters, text)
        elif source == "k" and text == "absent":
            self._has_log = False
        elif source == "k":
            _add(self._log, text)
        return None

    def _take_row(self, text: str) -> Sample | None:
        self._heard_s = self._uptime_s
        if text == "started":
            self._ended, self._head, self._rows, self._thresholds = None, "", [], []
            return None
        if text.startswith("ended "):
            self._ended = _failed(self._report(), text)
            return self._sample(self._ended)
        if query.is_query([text]):
            self._head = text
            return None
        _add(self._rows, text)
        return self._sample(self._report()) if self._is_complete() else None

    def _is_complete(self) -> bool:
        names = _cells(self._head)
        cards = [cells for row in self._rows if len(cells := _cells(row)) == len(names)]
        if _COUNT not in names or not cards:
            return False
        return len(cards) == whole(cards[-1][names.index(_COUNT)])

    def _tick(self, text: str) -> Sample | None:
        self._uptime_s = _seconds(text)
        self._links, self._counters = _links(self._counters), []
        if self._heard_s is None:
            self._heard_s = self._uptime_s
        if self._ended:
            return self._sample(self._ended)
        if self._rows and len(self._rows) == self._rows_before:  # nothing follows them
            return self._sample(self._report())
        self._rows_before = len(self._rows)
        silent_s = (self._uptime_s or 0.0) - (self._heard_s or 0.0)
        return self._sample(None, silent_s) if silent_s > self._late_s else None

    def _report(self) -> SmiReport:
        text = "\n".join([*filter(None, [self._head]), *self._rows, ""])
        self._rows, self._rows_before = [], 0
        report = nvidia_smi_xml.parse(text)
        limits = nvidia_smi_xml.parse("\n".join([*self._thresholds, ""]))
        known = {one.address: one for one in limits.gpus}
        return replace(
            report, gpus=tuple(_with_limits(one, known.get(one.address)) for one in report.gpus)
        )

    def _sample(self, report: SmiReport | None, silent_s: float = 0.0) -> Sample:
        log, self._log = tuple(self._log), []
        return Sample(
            boot=self._boot,
            uptime_s=self._uptime_s,
            report=report,
            silent_s=silent_s,
            links=self._links,
            functions=dict(self._functions),
            log=log,
            has_log=self._has_log,
        )


def _failed(report: SmiReport, ended: str) -> SmiReport:
    """With a reason at least, where it reports no card."""
    if report.gpus or report.failure_lines:
        return report
    words = [line for line in report.unparsed if line.strip()]
    lines = tuple(words) or (f"nvidia-smi {ended.replace(' ', ' with exit code ', 1)}",)
    return replace(report, failure="other", failure_lines=lines)


def _with_limits(card: SmiGpu, limits: SmiGpu | None) -> SmiGpu:
    """They do not change, and no query has them."""
    if limits is None:
        return card
    return replace(
        card,
        celsius_slowdown=limits.celsius_slowdown,
        celsius_left_slowdown=limits.celsius_left_slowdown,
        memory_celsius_max=limits.memory_celsius_max,
    )


def _links(counters: list[str]) -> tuple[AerDevice, ...]:
    """As the section has them, a block for each file."""
    files: dict[str, list[str]] = {}
    for line in counters:
        file, _, count = line.rpartition(":")
        files.setdefault(file, []).append(count)
    blocks = (f"== {file}\n" + "\n".join(lines) for file, lines in files.items())
    return aer.parse("\n\n".join(blocks)).devices


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.split(",")]


def _add(lines: list[str], line: str) -> None:
    if len(lines) < _MOST_LINES:
        lines.append(line)


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
