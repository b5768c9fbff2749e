"""Errors of PCIe links in the kernel logs of two boots, and whose links these are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from rigops.dataclass import dataclass
from rigops.doctor import views
from rigops.doctor.examined import Examined, once
from rigops.doctor.finding import HOST, Evidence
from rigops.doctor.views import kernel_logs, pcie
from rigops.probe import pcie_routes
from rigops.probe.kernel_log.aer import LinkErrors, LinkSeverity
from rigops.probe.kernel_log.events import KernelLog
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG

_NVIDIA: Final = "10de"
# They may have a card, its sound function or a port; any other driver has a device of its own.
_DRIVERS: Final = frozenset({"nvidia", "pcieport", "pci", "vfio-pci", "snd_hda_intel"})
_SHORTEST_S: Final = 600.0  # so that a few errors while a link trains are no storm
_LINES_OF_ERROR: Final = 8  # at most: the kernel's description of it
_BURST: Final = 3
_BURST_S: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class LoggedErrors:
    """Of one card in one boot. `subject` is None for other devices; "" where it is not known."""

    subject: str | None
    errors: tuple[LinkErrors, ...]
    is_previous: bool
    is_all: bool  # the log has left out no lines, and each came alone
    is_excerpt: bool  # a paste of hardly more than these errors, whose rate is not known

    @property
    def count(self) -> int:
        """Both ends of a link report the same error."""
        return max(map(_count, self.errors))

    @property
    def per_minute(self) -> float:
        """While they came."""
        return max(one.most.count * 60 / max(_seconds(one), _SHORTEST_S) for one in self.errors)

    @property
    def is_burst(self) -> bool:
        """An excerpt shows several at once: they came in such numbers that it was cut short."""
        return self.is_excerpt and any(
            _count(one) >= _BURST and _seconds(one) < _BURST_S for one in self.errors
        )

    @property
    def where(self) -> str:
        return ", ".join(dict.fromkeys(one.address for one in self.errors))

    @property
    def names(self) -> str:
        names = dict.fromkeys(name for one in self.errors for name in one.names)
        return f" ({', '.join(names)})" if names else ""

    @property
    def data(self) -> dict[str, object]:
        return kernel_logs.last_of(one.most.last for one in self.errors)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        which: kernel_logs.Which = "previous" if self.is_previous else "current"
        entries = (line for one in self.errors for line in (one.most.first, one.most.last))
        cited = (Evidence(kernel_logs.section_of(which, one), one.line) for one in entries)
        return tuple(dict.fromkeys(cited))


def logged(
    examined: Examined,
    severity: LinkSeverity,
    counted: Collection[str],
) -> list[LoggedErrors]:
    """This boot's first, without the devices whose counters say it of this boot."""
    below = pcie.subjects_below(examined)
    found: dict[tuple[bool, bool, str | None], list[LinkErrors]] = {}
    for which, section in kernel_logs.SOURCES.items():
        log = examined.snapshot[section].or_empty
        cards = _cards_of(examined, log)
        # Of errors that are corrected the kernel names less.
        slots: dict[str, set[str]] = {}
        for one in log.link_errors:
            named = (one.address, *one.below, *one.cards_below)
            slots.setdefault(one.address, set()).update(_slot(address) for address in named)
        for one in log.link_errors:
            is_previous = which == "previous" or one.most.first.boot < 0
            if one.severity == severity and (is_previous or one.address not in counted):
                subjects = {*below.get(one.address, ())}
                subjects |= {f"gpu {slot}.0" for slot in slots[one.address] & cards}
                key = (is_previous, not log.left_out, _subject(examined, one, subjects))
                found.setdefault(key, []).append(one)
    return [
        LoggedErrors(
            subject=subject,
            errors=tuple(errors),
            is_previous=previous,
            is_all=is_all and not any(one.several_at_once for one in errors),
            is_excerpt=_is_excerpt(examined, errors),
        )
        for (previous, is_all, subject), errors in found.items()
    ]


def _is_excerpt(examined: Examined, errors: Sequence[LinkErrors]) -> bool:
    lines = examined.snapshot[KERNEL_LOG].or_empty.total_lines
    most = sum(map(_count, errors)) * _LINES_OF_ERROR
    return examined.snapshot.bundle.paste is not None and lines <= most


def _count(error: LinkErrors) -> int:
    return error.most.count + error.several_at_once


def _cards_of(examined: Examined, log: KernelLog) -> set[str]:
    """Slots of the cards that this host has, and of those that the log has."""
    named = {card.address for card in examined.cards}
    named |= {xid.address for xid in log.xids if xid.address}
    for one in log.link_errors:
        named |= one.cards_below
        if one.vendor == _NVIDIA or one.driver == "nvidia":
            named.add(one.address)
    return {_slot(address) for address in named}


def _subject(examined: Examined, error: LinkErrors, subjects: set[str]) -> str | None:
    if subjects:
        return subjects.pop() if len(subjects) == 1 else HOST
    if error.driver not in _DRIVERS or knows_the_tree(examined):
        return None
    return ""


@once
def knows_the_tree(examined: Examined) -> bool:
    """Whether a port that is above no card is known to be none of theirs."""
    routes = [pcie_routes.route_to(examined.snapshot, card.address) for card in examined.cards]
    is_whole = all(route is not None and route.is_complete for route in routes)
    return bool(routes) and is_whole and views.sees_the_bus(examined)


def _slot(address: str) -> str:
    return address.rpartition(".")[0]


def _seconds(error: LinkErrors) -> float:
    first, last = error.most.first.clock, error.most.last.clock
    return 0.0 if first is None or last is None else last - first
