"""Output of the btrfs tool, by mount point."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rigops.dataclass import dataclass
from rigops.probe.text import lines, matches

STATS = "btrfs device stats "
USAGE = "btrfs filesystem usage -b "
SCRUB = "btrfs scrub status "

_OF_OLD_BUNDLES = "btrfs subvolume list "  # any user can put rows into it

_STAT = re.compile(
    r"\[(?P<device>[^\]]{1,200})\]\.(?P<name>[a-z_]{1,40})\s+(?P<count>[0-9]{1,20})\s*"
)
_USAGE = re.compile(r"\s+(?P<name>[A-Z][A-Za-z ()]{1,40}):\s+(?P<bytes>[0-9]{1,20})(?:\s.*)?")
_FIELD = re.compile(r"(?P<name>[A-Z][A-Za-z ]{1,40}):\s+(?P<value>.*)")
_FAULT = re.compile(r"\b(?P<name>[a-z_]{2,20})=(?P<count>[0-9]{1,20})\b")
_UNCORRECTABLE = re.compile(r"there are (?P<count>[0-9]{1,20}) uncorrectable errors")
_UNCORRECTED = re.compile(r"\s*Uncorrectable:\s+(?P<count>[0-9]{1,20})")  # since btrfs-progs 5.2


@dataclass(frozen=True)
class DeviceCounter:
    device: str  # /dev/sda1, or devid:4 of one that is missing
    name: str  # corruption_errs
    count: int
    line: str


@dataclass(frozen=True, kw_only=True)
class Scrub:
    """`faults` counts by kind: csum, verify, super, uncorrectable."""

    status: str | None = None  # finished, running, aborted, interrupted, never
    started: str | None = None  # local time of the host, as it was printed
    faults: Mapping[str, int]
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Btrfs:
    """None: not collected, or not reported without root."""

    target: str
    counters: tuple[DeviceCounter, ...] | None = None
    size_bytes: int | None = None
    unallocated_bytes: int | None = None
    missing_bytes: int | None = None  # of devices that are not there
    scrub: Scrub | None = None


def btrfs(found: Mapping[str, str]) -> tuple[tuple[Btrfs, ...], list[str]]:
    targets = dict.fromkeys(
        head[len(start) :]
        for head in found
        for start in (STATS, USAGE, SCRUB)
        if head.startswith(start)
    )
    unparsed = [
        head
        for head in found
        if head.startswith("btrfs ") and not head.startswith((STATS, USAGE, SCRUB, _OF_OLD_BUNDLES))
    ]
    return tuple(_volume(target, found, unparsed) for target in targets), unparsed


def _volume(target: str, found: Mapping[str, str], unparsed: list[str]) -> Btrfs:
    stats, usage = found.get(STATS + target), found.get(USAGE + target)
    scrub = found.get(SCRUB + target)
    sizes = _sizes(usage or "")
    return Btrfs(
        target=target,
        counters=_counters(stats, unparsed) if stats is not None else None,
        size_bytes=sizes.get("Device size"),
        unallocated_bytes=sizes.get("Device unallocated"),
        missing_bytes=sizes.get("Device missing"),
        scrub=_scrub(scrub) if scrub is not None and scrub.strip() else None,
    )


def _counters(body: str, unparsed: list[str]) -> tuple[DeviceCounter, ...] | None:
    found, left = matches(_STAT, lines(body))
    unparsed += left
    return (
        tuple(
            DeviceCounter(one["device"], one["name"], int(one["count"]), one.string)
            for one in found
        )
        or None
    )


def _sizes(body: str) -> dict[str, int]:
    """Of the overview alone; the tables below it have the same words."""
    found: dict[str, int] = {}
    for shape in matches(_USAGE, lines(body))[0]:
        found.setdefault(shape["name"].strip(), int(shape["bytes"]))
    return found


def _scrub(body: str) -> Scrub:
    output = [line for line in lines(body) if line.strip()]
    fields = {
        one["name"]: one["value"].strip() for one in matches(_FIELD, map(str.strip, output))[0]
    }
    faults = {
        shape["name"]: int(shape["count"])
        for line in output
        if "rror" in line
        for shape in _FAULT.finditer(line)
    }
    for line in output:
        beyond = _UNCORRECTABLE.search(line) or _UNCORRECTED.fullmatch(line)
        if beyond:
            faults["uncorrectable"] = int(beyond["count"])
    never = any("no stats available" in line for line in output) and "Status" not in fields
    return Scrub(
        status="never" if never else fields.get("Status"),
        started=fields.get("Scrub started"),
        faults=faults,
        lines=tuple(output[:20]),
    )
