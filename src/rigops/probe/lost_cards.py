"""Cards that have fallen off the bus: one judgement, sentence and advice for all commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from rigops.dataclass import dataclass
from rigops.probe.kernel_log.events import OFF_THE_BUS
from rigops.probe.section import Section
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.smi.report import SmiGpu, SmiReport

if TYPE_CHECKING:
    from rigops.probe.snapshot import HostSnapshot

# What it takes to find them, and since when. lspci is read where it was collected as well.
SECTIONS: Final[tuple[Section[Any], ...]] = (PCI, SMI, KERNEL_LOG)
ADVICE: Final = (
    'reboot the host, and if the card comes back, lower "gpu_power_limit" (say "80%"); if not, '
    "reseat card, riser and power cables"
)
UNNAMED: Final = "unknown"

# What only the card itself can say, while it works. Its power is not among them: some models
# cannot measure it. All else is a setting or a property, which the driver may fail to tell alone.
MEASURED: Final = frozenset(
    ("fan_speed", "performance_state", "temperature", "utilization", "fb_memory_usage", "clocks")
)
_FEWEST: Final = 2  # of them unreadable, before a card counts as dead
_DRIVER: Final = "nvidia"
_NO_ANSWER: Final = "it answers nothing on the bus any more"
# How nvidia-smi ends where it asked cards.
_ASKED: Final = frozenset({None, "lost", "not-started", "no-devices"})


@dataclass(frozen=True)
class LostCard:
    """`address` may be unnamed. `reason`: how that is known, by these lines of sections."""

    address: str
    reason: str
    lines: tuple[tuple[str, str], ...] = ()
    since: str = ""

    @property
    def state(self) -> str:
        return f"lost since {self.since}" if self.since else "lost"

    def __str__(self) -> str:
        name = f"card {self.address.removeprefix('0000:')}"
        return f"{'a card' if self.address == UNNAMED else name} is {self.state}"


@dataclass(frozen=True)
class LostCards:
    """What a run knows of them, for its concerns."""

    cards: tuple[LostCard, ...] = ()


def sentence(lost: Iterable[LostCard]) -> str:
    return " and ".join(map(str, lost))


def lost_cards(
    snapshot: HostSnapshot, numbered: Sequence[str] | None = None
) -> dict[str, LostCard]:
    """By address; one that nvidia-smi's error line alone names is among them.

    `numbered`: the cards in the order of the driver; without it, as they are on the bus.
    """
    pci, listed = snapshot[PCI].or_empty, snapshot[LSPCI].or_empty
    report = snapshot[SMI].value
    if numbered is None:
        numbered = (
            sorted(one.address for one in pci.nvidia_gpus) if snapshot[PCI].is_exhaustive else ()
        )
    found: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
        one.address: (_NO_ANSWER, ((LSPCI.name, one.line),))
        for one in listed.nvidia_gpus
        if one.is_gone
    }
    reported = set()
    if report is not None:
        reported = {card.address for card in report.gpus}
        for at, card in enumerate(report.gpus):
            if reason := _dead(card):
                lines = tuple((SMI.name, line) for line in card.troubles.values())
                found.setdefault(card.address or str(at), (reason, lines))
        lines = tuple((SMI.name, line) for line in report.failure_lines)
        for address in _named_lost(numbered, report):
            found.setdefault(address, ("nvidia-smi cannot reach it any more", lines))
    if report is None or report.failure in _ASKED:
        for one in pci.nvidia_gpus:
            # One of another driver, or that sleeps until nvidia-smi asks it, reads so too.
            if one.is_gone and one.driver == _DRIVER and one.address not in reported:
                found.setdefault(one.address, (_NO_ANSWER, ((PCI.name, one.line),)))
    if len(found) > 1:
        found.pop(UNNAMED, None)
    return {
        address: LostCard(address, reason, lines, _since(snapshot, address))
        for address, (reason, lines) in found.items()
    }


def _named_lost(numbered: Sequence[str], report: SmiReport) -> list[str]:
    """The driver numbers the cards by address. Unnamed where a line does not tell which it is."""
    named = [
        numbered[number] if number < len(numbered) else UNNAMED for number in report.lost_numbers
    ]
    return [*report.lost, *named] or [UNNAMED] * (report.failure == "lost")


def _dead(card: SmiGpu) -> str:
    """By what nvidia-smi still reports of it; empty where it is not."""
    said = "\n".join(card.troubles.values()).lower()
    if "is lost" in said or "requires reset" in said:
        return "nvidia-smi reports it as lost"
    failed = {path.partition("/")[0] for path in card.troubles} & MEASURED
    measured = (
        card.fan_percent, card.performance_state, card.celsius, card.utilization_percent,
        card.watts, card.mhz_graphics,
    )  # fmt: skip
    if len(failed) >= max(_FEWEST, sum(one is not None for one in measured)):
        return f"{len(card.troubles)} of its values cannot be read any more"
    return ""


def _since(snapshot: HostSnapshot, address: str) -> str:
    """By the kernel log of this boot, where it was collected; the day only if it is not today."""
    moments = [
        xid.entry.at
        for xid in snapshot[KERNEL_LOG].or_empty.xids
        if xid.number == OFF_THE_BUS and not xid.entry.boot and xid.entry.at
        if address == UNNAMED or xid.address in {None, address}
    ]
    if not moments:
        return ""
    day, _, clock = min(moments).partition("T")
    today = (snapshot.bundle.collected_at or "").partition("T")[0]
    return f"{clock[:5]} UTC" if day == today else f"{day} {clock[:5]} UTC"
