"""Gaps of the kernel logs, and the device of an address in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeVar

from rigops.dataclass import dataclass
from rigops.doctor.card import logged_cards
from rigops.doctor.examined import Examined, once
from rigops.doctor.finding import Evidence, Finding
from rigops.probe.kernel_log.events import IommuFault, KernelLog, Xid
from rigops.probe.kernel_log.log_line import LogLine
from rigops.probe.section import Section
from rigops.probe.sections.kernel_log import KERNEL_LOG_PREVIOUS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.pci import NVIDIA
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.snapshot import Answer, HostSnapshot

Which = Literal["current", "previous"]
Event = TypeVar("Event", bound="LogLine | Xid | IommuFault")
SOURCES: Final[dict[Which, Section[KernelLog]]] = {
    "current": KERNEL_LOG,
    "previous": KERNEL_LOG_PREVIOUS,
}
_CLASSES: Final = {
    0x0104: "a RAID controller",
    0x0106: "a SATA controller",
    0x0107: "a SAS controller",
    0x0108: "an NVMe disk",
    0x0200: "a network card",
    0x0280: "a wireless network card",
    0x0300: "a graphics card",
    0x0403: "a sound device",
    0x0C03: "a USB controller",
}


@dataclass(frozen=True, kw_only=True)
class Read:
    """`gap`: why the log may miss something, else empty; grave where only a fault explains it."""

    log: KernelLog | None
    gap: str = ""
    is_grave: bool = False


def read(snapshot: HostSnapshot, which: Which) -> Read:
    """Of a paste the lines in it count as read: a finding names their number."""
    answer = snapshot[SOURCES[which]]
    is_there = answer.value is not None and answer.value.is_a_log
    gap = "" if is_there and snapshot.bundle.paste else _gap(answer, which)
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


def clean(snapshot: HostSnapshot, what: str) -> Finding:
    """No `what` was found in the log of this boot: ok as far as it was read."""
    current = read(snapshot, "current")
    if snapshot.bundle.paste and (lines := pasted_lines(snapshot)):
        return Finding("ok", f"no {what} in {lines}", judged_by=KERNEL_LOG.name)
    if current.gap:
        return Finding(
            "unknown", f"whether there was {what} is not known: the kernel log {current.gap}"
        )
    if current.log and current.log.starts_at_boot is False:
        return Finding("info", f"no {what} in the remaining kernel log of this boot")
    return Finding("ok", f"no {what} in the kernel log of this boot")


def pasted_lines(snapshot: HostSnapshot) -> str:
    """How many lines of logs a paste has, in words; empty for none."""
    logs = [snapshot[section].or_empty for section in SOURCES.values()]
    lines = sum(log.total_lines for log in logs if log.is_a_log)
    if not lines:
        return ""
    begins = ", from the boot on" if logs[0].starts_at_boot else ""
    return (f"these {lines:,} lines" if lines > 1 else "this line") + begins


def cited(entries: Iterable[tuple[Which, LogLine]], most: int) -> tuple[Evidence, ...]:
    """The first of them and the last."""
    lines = [Evidence(section_of(which, entry), entry.line) for which, entry in entries]
    return tuple(lines if len(lines) <= most else [*lines[: most - 1], lines[-1]])


def last_of(entries: Iterable[LogLine]) -> dict[str, object]:
    """Data of a finding about an incident: when it last happened, where all the log says it."""
    moments = [one.at for one in entries]
    return {} if None in moments else {"last": max(filter(None, moments))}


def section_of(which: Which, entry: LogLine) -> str:
    """A log may go back beyond this boot."""
    return SOURCES["current" if entry.boot else which].name


def of_both_boots(
    snapshot: HostSnapshot, events: Callable[[KernelLog], Iterable[Event]]
) -> list[tuple[Which, Event]]:
    """Of this boot first: that holds now. Boots before the previous one are left out."""
    boots: dict[int, Which] = {0: "current", -1: "previous"}
    found = [
        (boots.get(_line_of(one).boot - (which == "previous")), one)
        for which, section in SOURCES.items()
        for one in events(snapshot[section].or_empty)
    ]
    return [(boot, one) for boot in boots.values() for which, one in found if which == boot]


def _line_of(event: LogLine | Xid | IommuFault) -> LogLine:
    return event if isinstance(event, LogLine) else event.entry


def matching(snapshot: HostSnapshot, pattern: re.Pattern[str]) -> list[tuple[Which, LogLine]]:
    """Of both boots, this one first."""
    return of_both_boots(
        snapshot, lambda log: (one for one in log.lines if pattern.search(one.message))
    )


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Nothing is known of a device that no source names."""

    name: str = ""
    is_nvidia: bool = False


def owner_of(examined: Examined, address: str) -> Owner:
    if _slot(address) in _slots_of_cards(examined):
        return Owner(name="an NVIDIA card", is_nvidia=True)
    function = examined.snapshot[PCI].or_empty.by_address.get(address)
    listed = examined.snapshot[LSPCI].or_empty.by_address.get(address)
    if function is not None:
        kind = _CLASSES.get(function.pci_class >> 8, "a device")
        name = (listed and listed.name) or f"{function.vendor:04x}:{function.device:04x}"
        return Owner(name=f"{kind} ({name})", is_nvidia=function.vendor == NVIDIA)
    if listed is None:
        return Owner()
    kind = _CLASSES.get(listed.pci_class or 0, "a device")
    return Owner(name=f"{kind} ({listed.name})", is_nvidia=listed.vendor == NVIDIA)


@once
def _slots_of_cards(examined: Examined) -> set[str]:
    """A card that the driver complained of may be gone from the bus since."""
    snapshot = examined.snapshot
    logs = (snapshot[KERNEL_LOG].or_empty, snapshot[KERNEL_LOG_PREVIOUS].or_empty)
    complaints = {xid.address for log in logs for xid in log.xids if xid.address}
    named = (*complaints, *logged_cards(snapshot), *(card.address for card in examined.cards))
    return set(map(_slot, named))


def _slot(address: str) -> str:
    """A card's sound function is on the card."""
    return address.rpartition(".")[0]
