"""All that was seen of a host while it was watched, judged by doctor's own checks and limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import Final

from rigops.catalog import Catalog
from rigops.dataclass import dataclass
from rigops.doctor.checks import aer, driver_hang
from rigops.doctor.finding import HOST, Finding, Status, fix_by_hand
from rigops.doctor.host_report import HostStatus, host_status
from rigops.doctor.registry import CHECKS, examine
from rigops.doctor.watch.stream import MOST_CARDS, Sample
from rigops.errors import HostError
from rigops.inventory.spec import RigSpec
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.kernel_log.parser import parse as parse_log
from rigops.probe.lost_cards import ADVICE
from rigops.probe.sections.aer import AerDevice, Kind
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.smi.report import SmiGpu, SmiReport
from rigops.probe.snapshot import Answer, HostSnapshot

CHECK_IDS: Final = (
    *("gpu.lost", "xid", "tmp.core", "tmp.mem", "tmp.fan", "tmp.outlier"),
    *("clk.throttle", "clk.lost"),
)
_CHECKS: Final = tuple(check for check in CHECKS if check.id in CHECK_IDS)
_WORST_FIRST: Final[tuple[Status, ...]] = ("fail", "warn", "info")
_HUNG_S: Final = 30.0
_SHORTEST_S: Final = 600.0  # as for errors in a log: a few while a link trains are no storm
_MOST_LINES: Final = 500  # of the log, the newest

_Link = tuple[str, "Kind"]


@dataclass
class CardSeen:
    """`now`: None where nvidia-smi does not report it any more. `held`: samples by reason."""

    name: str
    now: SmiGpu | None = None
    samples: int = 0
    celsius: float | None = None  # the highest, as the two below
    memory_celsius: float | None = None
    watts: float | None = None
    held: Counter[str] = field(default_factory=Counter)
    corrected: int = 0  # new errors of its links
    uncorrected: int = 0
    xids: Counter[int] = field(default_factory=Counter)

    def take(self, now: SmiGpu) -> None:
        self.now = now
        self.samples += 1
        self.celsius = _highest(self.celsius, now.celsius)
        self.memory_celsius = _highest(self.memory_celsius, now.memory_celsius)
        self.watts = _highest(self.watts, now.watts)
        self.held.update(now.throttle or ())


@dataclass
class HostSeen:
    """`now`: what holds at this moment; `findings`: the worst of each kind, and when it was."""

    host: str
    spec: RigSpec | None
    catalog: Catalog
    cards: dict[str, CardSeen] = field(default_factory=dict)
    driver: str | None = None
    trouble: str = ""  # why there are no values now
    error: HostError | None = None  # why it is not reached now
    is_over: bool = False  # and is not tried again
    has_log: bool = True
    samples: int = 0
    now: tuple[Finding, ...] = ()
    findings: dict[tuple[str, str], tuple[Finding, str]] = field(default_factory=dict)
    _at: str = ""
    _boot: str = ""
    _began_s: float | None = None
    _before: dict[_Link, int] | None = None
    _grown: Counter[_Link] = field(default_factory=Counter)
    _log: list[str] = field(default_factory=list)

    @property
    def status(self) -> HostStatus:
        """The worst of all the time; unknown while it is not reached or was never seen."""
        worst = host_status(one for one, _ in self.findings.values())
        is_known = worst == "fail" or (self.cards and not self.error)
        return worst if is_known else "unknown"

    def lose(self, error: HostError, *, is_over: bool = False) -> None:
        self.error, self.is_over = error, is_over

    def take(self, sample: Sample, at: str) -> None:
        self.error, self.has_log = None, sample.has_log
        self.samples += 1
        if sample.boot != self._boot:
            self._start(sample)
        self._at = at
        report = sample.report
        found = [*self._count(sample), *self._read_log(sample)]
        if report is None:
            self.trouble = f"nvidia-smi has printed nothing for {sample.silent_s:.0f} s"
            if sample.silent_s >= _HUNG_S:
                found.append(
                    Finding(
                        "fail",
                        f"the driver hangs: {self.trouble.replace('has ', '')}",
                        id="drv.hang",
                        fix=driver_hang.FIX,
                    )
                )
        else:
            found += self._judge(report)
        self.now = tuple(one for one in found if one.status in _WORST_FIRST)
        for one in self.now:
            self._note(one)

    def _start(self, sample: Sample) -> None:
        """The first of a boot: counters begin at 0 with the machine."""
        self._before = None if not self._boot else {}
        self._began_s = self._began_s if self._boot else sample.uptime_s
        self._boot = sample.boot

    def _judge(self, report: SmiReport) -> list[Finding]:
        self.driver = report.driver or self.driver
        reported = {one.address: one for one in report.gpus if one.address}
        for address, now in reported.items():
            if address in self.cards or len(self.cards) < MOST_CARDS:
                name = (now.name or "GPU").removeprefix("NVIDIA ")
                self.cards.setdefault(address, CardSeen(name)).take(now)
        missing = [address for address in self.cards if address not in reported]
        for address in missing:
            self.cards[address].now = None
        self.trouble = " ".join(report.failure_lines[:1]).strip() if report.failure else ""
        found = self._examine(report)
        named = {one.subject for one in found if one.id == "gpu.lost"}
        return [
            *found,
            *(
                Finding(
                    "fail",
                    "nvidia-smi does not report the card any more",
                    id="gpu.lost",
                    subject=f"gpu {address}",
                    fix=fix_by_hand(ADVICE),
                )
                for address in missing
                if reported and f"gpu {address}" not in named
            ),
        ]

    def _examine(self, report: SmiReport) -> list[Finding]:
        log = Collected("\n".join([*self._log, ""]), root=True)
        bundle = Bundle(self.host, self._at, root=True, sections={KERNEL_LOG.name: log})
        # As the section's, whose parser would get it from one text.
        answer = Answer(replace(SMI, parse=lambda _: report), Collected(SMI.name))
        snapshot = HostSnapshot(bundle, {SMI.name: answer})
        return examine(snapshot, self.spec, self.catalog, checks=_CHECKS)

    def _read_log(self, sample: Sample) -> Iterable[Finding]:
        if sample.log:
            self._log = [*self._log, *sample.log][-_MOST_LINES:]
            for xid in parse_log("\n".join(sample.log)).xids:
                if (card := self.cards.get(xid.address or "")) and not xid.bus_drop:
                    card.xids[xid.number] += xid.entry.repeated
            if sample.report is None:  # they are judged with it otherwise
                return [one for one in self._examine(SMI.parse("")) if one.id == "xid"]
        return ()

    def _count(self, sample: Sample) -> list[Finding]:
        """New errors. A counter that went back began again."""
        if sample.links is None:
            return []
        counted = {(one.address, one.kind): one.total for one in sample.links}
        if self._before is not None:
            for link, total in counted.items():
                before = self._before.get(link, 0)
                self._grown[link] += total - before if total >= before else total
        self._before = counted
        below = _cards_below(sample)
        for address, card in self.cards.items():
            own = {one for one, cards in below.items() if cards == [address]}
            card.corrected = self._most(own, ("correctable",))
            card.uncorrected = self._most(own, ("nonfatal", "fatal"))
        return [*self._judge_links(sample, below)]

    def _most(self, functions: Iterable[str], kinds: Sequence[Kind]) -> int:
        """Both ends of a link report the same error."""
        return max((sum(self._grown[one, kind] for kind in kinds) for one in functions), default=0)

    def _judge_links(self, sample: Sample, below: dict[str, list[str]]) -> Iterable[Finding]:
        watched_s = max((sample.uptime_s or 0.0) - (self._began_s or 0.0), _SHORTEST_S)
        for (address, kind), new in self._grown.items():
            if not new:
                continue
            cards = below.get(address, [])
            subject = f"gpu {cards[0]}" if len(cards) == 1 else HOST
            is_corrected = kind == "correctable"
            status = aer.rate(new, watched_s)[0] if is_corrected else "fail"
            names = ", ".join(_names(sample.links or (), address, kind))
            yield Finding(
                status,
                f"{new} new {'corrected' if is_corrected else 'uncorrected'} "
                f"error{'s' * (new != 1)} at {address}" + (f" ({names})" if names else ""),
                id="pci.aer.corr" if is_corrected else "pci.aer.uncorr",
                subject=subject,
                why=aer.WHY_CORRECTED if is_corrected else aer.WHY_UNCORRECTED,
                fix=fix_by_hand(aer.SEEK) if status != "info" else None,
            )

    def _note(self, finding: Finding) -> None:
        """The first of the worst keeps its moment, and has the latest words."""
        key = (finding.id, finding.subject)
        before, since = self.findings.get(key, (finding, self._at))
        rank = _WORST_FIRST.index
        if rank(finding.status) <= rank(before.status):
            is_worse = rank(finding.status) < rank(before.status)
            self.findings[key] = (finding, self._at if is_worse else since)


def _cards_below(sample: Sample) -> dict[str, list[str]]:
    below: dict[str, list[str]] = {}
    for card, functions in sample.functions.items():
        for function in functions:
            below.setdefault(function, []).append(card)
    return below


def _names(links: Iterable[AerDevice], address: str, kind: Kind) -> Iterable[str]:
    for one in links:
        if (one.address, one.kind) == (address, kind):
            yield from one.counts


def _highest(one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return max(known, default=None)
