"""Changes on a host while bytes moved between its GPUs, and their gravity. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, field
from typing import Annotated, Final

from rigops.dataclass import dataclass
from rigops.hostside.p2p.verdict import FAIL, OK, WARN
from rigops.json_dataclass import NAME
from rigops.json_fields import Fields
from rigops.probe.kernel_log import parser
from rigops.probe.kernel_log.events import count
from rigops.probe.kernel_log.log_line import LogLine
from rigops.probe.sections import nvidia_smi_xml
from rigops.probe.smi.report import SmiGpu

Value = Annotated[float | str | None, Fields.number]  # the program on a host counts alone

_GRAVE_REASONS: Final = frozenset(
    ("hw_power_brake", "hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown")
)
_COUNTERS: Final = "clocks_event_reasons_counters/"
_TIMES: Final = {  # nvidia-smi -q of newer drivers counts how long
    "power_brake_us": ("hw_power_braking",),
    "thermal_slowdown_us": ("hw_thermal_slowdown", "sw_thermal_slowdown"),
}
_MEBIBYTES: Final = re.compile(r": ([0-9]{1,9}) MiB\s*$")
_MICROSECONDS: Final = re.compile(r": ([0-9]{1,18}) us\s*$")
_FAILS: Final = frozenset(("xid", "aer_fatal", "aer_nonfatal", "lost"))
_LOG: Final = "the kernel log ("
_MAY_READ: Final = "a login that is no root needs the group systemd-journal"
_IS_FINE: Final = frozenset(("bar1_mib", "bar1_used_mib"))
_BAR1_NOISE_MIB: Final = 16

_ERRORS: Final = "PCIe errors of {subject} (%s) grew from {before} to {after}"
_WORDS: Final = {
    "xid": "Xid {after} of {subject}: {detail}",
    "iommu_fault": "the IOMMU stopped {subject} {times}",
    "aer_corrected": _ERRORS % "corrected",
    "aer_nonfatal": _ERRORS % "not corrected",
    "aer_fatal": _ERRORS % "fatal",
    "link_width": "the link of {subject} had {after} lanes, {before} before",
    "link_speed": "the link of {subject} ran at {after:g} GT/s at most, at {before:g} before",
    "lost": "{subject} has left the bus",
    "throttle": "{subject} slows down: {after}",
    "power_brake_us": "the power supply slowed {subject} down for {seconds:g} s",
    "thermal_slowdown_us": "heat slowed {subject} down for {seconds:g} s",
    "bar1_mib": "BAR1 of {subject} is {after} MiB, {before} MiB before",
    "bar1_used_mib": "{after} MiB of BAR1 of {subject} are in use, {before} MiB before",
}


@dataclass(frozen=True)
class Change:
    kind: str
    subject: str  # a PCI address; empty where the host names none
    before: Value
    after: Value
    detail: str = ""

    def as_json(self) -> dict[str, object]:
        return {name: value for name, value in asdict(self).items() if name != "detail" or value}


@dataclass(frozen=True)
class LinkSeen:
    """While bytes moved: the fastest that the link was, and the fewest lanes that it had."""

    gpu: str
    gt_per_s: float | None
    lanes: float | None


def _first_of_two(given: Fields, name: str) -> str:
    return next(iter(given.texts(name)), "")


def _second_of_two(given: Fields, name: str) -> str:
    return next(iter(given.texts(name)[1:]), "")


@dataclass(frozen=True, kw_only=True)
class Around:
    """Readings of the program on the host before the copies and after.

    `functions`: the cards and the ports above them, whose errors were counted.
    """

    counted: tuple[Change, ...] = field(metadata={NAME: "changes"})
    links: tuple[LinkSeen, ...]
    functions: tuple[str, ...]
    new_lines: tuple[str, ...] = field(metadata={NAME: "kernel_log"})
    smi_before: Annotated[str, _first_of_two] = field(metadata={NAME: "smi"})
    smi_after: Annotated[str, _second_of_two] = field(metadata={NAME: "smi"})
    unread: tuple[str, ...]


def changes_of(around: Around) -> tuple[Change, ...]:
    counted = tuple(_with_lost_cards(around.counted))
    logged = (
        change
        for change in from_log(around.new_lines)
        if not change.kind.startswith("aer_")
        or (change.subject in around.functions and not _is_in(change, counted))
    )
    shown = (change for change in _of_cards(around) if not _is_in(change, counted))
    return (*counted, *logged, *shown)


def not_compared(around: Around) -> tuple[str, ...]:
    both = _cards(around.smi_before) and (_cards(around.smi_after) or _lost(around.smi_after))
    return around.unread if both else (*around.unread, "throttling and BAR1 (nvidia-smi -q)")


def not_compared_text(unread: Sequence[str]) -> str:
    """`unread`: as `not_compared` gives it, not empty."""
    log = [one for one in unread if one.startswith(_LOG)]
    rest = [one for one in unread if not one.startswith(_LOG)]
    what = "driver errors during the copies were not looked for"
    parts = [f"{what}: {one} cannot be read; {_MAY_READ}" for one in log]
    if rest:
        parts.append(f"not compared before and after the copies: {', '.join(rest)}")
    return "; ".join(parts)


def from_log(lines: Collection[str]) -> Iterator[Change]:
    """Of new lines of the kernel log: each kind of event of a device is one change."""
    log = parser.parse("\n".join(lines))
    xids = {(one.number, one.address or ""): one for one in reversed(log.xids)}
    for (number, address), xid in sorted(xids.items(), key=lambda item: item[1].entry.line):
        yield Change("xid", address, None, number, xid.detail or "no details")
    faults: dict[str, list[LogLine]] = {}
    for fault in log.iommu_faults:
        faults.setdefault(fault.address or "", []).append(fault.entry)
    for address, entries in faults.items():
        yield Change("iommu_fault", address, 0, count(entries))
    for error in log.link_errors:
        names = ", ".join(error.names)
        yield Change(f"aer_{error.severity}", error.address, 0, error.most.count, names)


def gravity_of(change: Change, cards: Collection[str]) -> str:
    """The status that the host has at best."""
    if change.kind in _FAILS:
        return FAIL
    if change.kind == "iommu_fault":
        slots = {_slot(card) for card in cards}
        return FAIL if _slot(change.subject) in {"", *slots} else WARN
    is_wider = change.kind == "link_width" and _difference(change) >= 0
    if change.kind in _IS_FINE or is_wider:
        return OK
    return WARN


def in_words(change: Change) -> str:
    """One sentence."""
    text = _WORDS.get(change.kind, "{subject}: {before} before, {after} after")
    return text.format(
        subject=change.subject or "a device",
        before=change.before,
        after=change.after,
        detail=change.detail,
        times="once" if change.after == 1 else f"{change.after} times",
        seconds=_difference(change) / 1e6,
    )


def _difference(change: Change) -> float:
    if isinstance(change.before, (int, float)) and isinstance(change.after, (int, float)):
        return change.after - change.before
    return 0


def _slot(address: str) -> str:
    return address.rpartition(".")[0]


def _is_in(change: Change, others: Collection[Change]) -> bool:
    return any((one.kind, one.subject) == (change.kind, change.subject) for one in others)


def _with_lost_cards(counted: Collection[Change]) -> Iterator[Change]:
    for change in counted:
        if change.kind == "link_width" and change.after == 0:
            yield Change("lost", change.subject, change.before, None)
        else:
            yield change


# ---- nvidia-smi


def _cards(text: str) -> Mapping[str, SmiGpu]:
    gpus = nvidia_smi_xml.parse(text).gpus if text.strip() else ()
    return {gpu.address: gpu for gpu in gpus if gpu.address}


def _lost(text: str) -> tuple[str, ...]:
    return nvidia_smi_xml.parse(text).lost if text.strip() else ()


def _of_cards(around: Around) -> Iterator[Change]:
    after, before = _cards(around.smi_after), _lost(around.smi_before)
    for address in _lost(around.smi_after):
        if address not in before:
            yield Change("lost", address, "reported", None)
    for address, gpu in _cards(around.smi_before).items():
        now = after.get(address)
        if now is not None:
            yield from _of_card(address, gpu, now)


def _of_card(address: str, before: SmiGpu, after: SmiGpu) -> Iterator[Change]:
    was, now = _reasons(before), _reasons(after)
    if now - was:
        yield Change("throttle", address, ", ".join(sorted(was)), ", ".join(sorted(now)))
    sizes = before.bar1_total_mib, after.bar1_total_mib
    if None not in sizes and sizes[0] != sizes[1]:
        yield Change("bar1_mib", address, *sizes)
    used = _bar1_used(before), _bar1_used(after)
    if used[0] is not None and used[1] is not None and used[1] - used[0] > _BAR1_NOISE_MIB:
        yield Change("bar1_used_mib", address, *used)  # of a process that hung and was left behind
    for kind, names in _TIMES.items():
        times = _microseconds(before, names), _microseconds(after, names)
        if times[1] > times[0]:
            yield Change(kind, address, *times)


def _reasons(gpu: SmiGpu) -> frozenset[str]:
    return (gpu.throttle or frozenset()) & _GRAVE_REASONS


def _bar1_used(gpu: SmiGpu) -> int | None:
    found = _MEBIBYTES.search(gpu.raw.get("bar1_memory_usage/used", ""))
    return int(found[1]) if found else None


def _microseconds(gpu: SmiGpu, names: Collection[str]) -> int:
    found = (_MICROSECONDS.search(gpu.raw.get(_COUNTERS + name, "")) for name in names)
    return sum(int(one[1]) for one in found if one)
