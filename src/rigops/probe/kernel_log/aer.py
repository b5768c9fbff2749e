"""Errors of PCIe links that the kernel reports (AER), added up: a storm has many thousand lines."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.probe.kernel_log.log_line import LogLine

LinkSeverity = Literal["corrected", "nonfatal", "fatal"]

_MOST: Final = 512  # devices of all boots, each with its kinds
_MOST_NAMES: Final = 8
_ADDRESS: Final = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
# A pager may have cut off the end of the line. An uncorrected error may then be of either kind.
_CUT: Final = r">?$"
_SEVERITY: Final = (
    rf"(?P<severity>Correct(?:ed|able)|C[a-z]{{0,8}}(?={_CUT})|"
    r"Uncorrect(?:ed|able) \((?:Non-)?Fatal\))"
)
_LINE: Final = re.compile(
    rf"(?P<driver>[A-Za-z0-9_-]{{1,40}}) (?P<address>{_ADDRESS}): (?P<rest>.*)"
)
_ERROR: Final = re.compile(rf"PCIe Bus Error: (?:severity=)?{_SEVERITY}")
_RECEIVED: Final = re.compile(
    rf"(?P<several>Multiple )?{_SEVERITY} error (?:message )?(?:rec[a-z]{{0,5}}(?: from|:)? ?"
    rf"(?:id=(?P<id>[0-9a-f]{{4}})|(?P<source>{_ADDRESS})|[0-9a-f:.]{{0,12}}{_CUT})|[a-z]{{0,7}}{_CUT})"
)
_CONTAINED: Final = re.compile(r"DPC: containment event, status:")
_VENDOR: Final = re.compile(r"device \[(?P<vendor>[0-9a-f]{4}):[0-9a-f]{4}\] error status")
_NAME: Final = re.compile(
    r"\[ {0,2}[0-9]{1,2} ?\] {1,8}(?P<name>[A-Za-z][A-Za-z0-9]{0,20}(?: [A-Za-z]{1,12}){0,3})"
)
_PORT: Final = "pcieport"
_NOT_RECOVERED: Final = ("can't recover", "device has no AER-aware driver")


@dataclass(kw_only=True)
class Logged:
    """In one form of time stamps: another form is another log of the same errors."""

    first: LogLine
    last: LogLine
    count: int = 0


@dataclass(kw_only=True)
class LinkErrors:
    """The reports of one device in one boot. `address` is at one end of the link that fails."""

    address: str
    severity: LinkSeverity
    driver: str  # nvidia, pcieport: the device's driver
    logs: dict[str, Logged] = field(default_factory=dict)
    vendor: str = ""  # four hexadecimal digits
    names: list[str] = field(default_factory=list)  # SDES, Surprise Down Error, BadTLP
    below: set[str] = field(default_factory=set)  # devices that the kernel named as below it
    cards_below: set[str] = field(default_factory=set)  # of them, those that NVIDIA's driver has
    several_at_once: int = 0  # notes of one error that had come again before it was read

    @property
    def most(self) -> Logged:
        """The log that has most of them."""
        return max(self.logs.values(), key=lambda log: log.count)


_Key = tuple[int, str, LinkSeverity]  # boot, address


class AerLog:
    """Fed with the kernel's lines in their order."""

    def __init__(self) -> None:
        self._reported: dict[_Key, LinkErrors] = {}
        self._received: dict[_Key, LinkErrors] = {}
        self._last: LinkErrors | None = None
        self._port: LinkErrors | None = None
        self._before = 0  # that the kernel has suppressed before the first it shows

    @property
    def found(self) -> list[LinkErrors]:
        """A port's note that it received an error counts where no error is described."""
        kinds = {(boot, severity) for boot, _, severity in self._reported}
        for (boot, address, severity), note in self._received.items():
            if one := self._reported.get((boot, address, severity)):
                one.below |= note.below
                one.cards_below |= note.cards_below
                one.several_at_once += note.several_at_once
        notes = [one for key, one in self._received.items() if (key[0], key[2]) not in kinds]
        return [*self._reported.values(), *notes]

    def take(self, entry: LogLine) -> None:
        shape = _LINE.match(entry.message)
        if shape is None:
            return
        address, rest = shape["address"], shape["rest"].removeprefix("AER:").strip()
        if error := _ERROR.match(rest):
            one = _added(self._reported, entry, shape["driver"], address, error["severity"])
            one.logs[entry.form].count += self._before
            self._before = 0
            self._last = one
            if shape["driver"] == _PORT:
                self._port = one
        elif _CONTAINED.match(rest):
            self._port = _added(self._reported, entry, shape["driver"], address, "(Fatal)")
            self._port.names = self._port.names or ["DPC"]
        elif received := _RECEIVED.match(rest):
            self._port = _added(
                self._received, entry, shape["driver"], address, received["severity"]
            )
            self._port.several_at_once += received["several"] is not None
            source = received["source"] or (received["id"] and _of_id(address, received["id"]))
            if source and source not in {address, f"{address[:4]}:00:00.0"}:
                self._port.below.add(source)
        else:
            self._describe(shape["driver"], address, rest)

    def take_suppressed(self, entry: LogLine, count: int) -> None:
        log = self._last.logs.get(entry.form) if self._last else None
        if log and log.last.boot == entry.boot:
            log.count += count
        else:
            self._before += count

    def _describe(self, driver: str, address: str, rest: str) -> None:
        last = self._last
        if last and last.address == address:
            vendor, name = _VENDOR.match(rest), _NAME.match(rest)
            if vendor:
                last.vendor = vendor["vendor"]
            if name and name["name"].strip() not in last.names and len(last.names) < _MOST_NAMES:
                last.names.append(name["name"].strip())
        if self._port and driver == "nvidia" and any(word in rest for word in _NOT_RECOVERED):
            self._port.cards_below.add(address)


def _added(
    counted: dict[_Key, LinkErrors], entry: LogLine, driver: str, address: str, words: str
) -> LinkErrors:
    severity = _kind(words)
    key = (entry.boot, address, severity)
    one = counted.get(key) or LinkErrors(address=address, severity=severity, driver=driver)
    if len(counted) < _MOST:
        counted[key] = one
    log = one.logs.setdefault(entry.form, Logged(first=entry, last=entry))
    log.count += entry.repeated
    log.last = entry
    return one


def _kind(severity: str) -> LinkSeverity:
    if severity.startswith("C"):
        return "corrected"
    return "nonfatal" if "Non-Fatal" in severity else "fatal"


def _of_id(address: str, text: str) -> str:
    """00e8 is bus 00, device 1d, function 0."""
    number = int(text, 16)
    return f"{address[:4]}:{number >> 8:02x}:{number >> 3 & 31:02x}.{number & 7}"
