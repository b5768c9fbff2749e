"""The cards: whether all that belong here are here, and answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from rigops.catalog import Catalog, find_gpu
from rigops.dataclass import dataclass
from rigops.doctor import views
from rigops.doctor.card import NO_NAME, Card
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined, once
from rigops.doctor.finding import Evidence, Finding, Fix, Status, fix_by_hand
from rigops.doctor.views import driver_state, pcie
from rigops.doctor.views.cards import (
    answers,
    evidence_of,
    is_switched_off,
    lost_cards,
    silent_cards,
    subject_of,
)
from rigops.inventory.spec.model import ExpectedGpus
from rigops.probe.address import normal
from rigops.probe.kernel_log.events import OFF_THE_BUS
from rigops.probe.kernel_log.log_line import LogLine
from rigops.probe.lost_cards import ADVICE, MEASURED, UNNAMED, LostCard
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.nvidia_smi_p2p import READ as P2P_READ
from rigops.probe.sections.nvidia_smi_topo import SECTION as TOPOLOGY
from rigops.probe.sections.nvidia_smi_xml import SECTION as SMI
from rigops.probe.sections.nvidia_version import SECTION as NVIDIA_VERSION
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.smi.report import SmiGpu

_NVIDIA = "nvidia"
_WHY_FEWER = (
    "A card that does not appear on the bus has no power, no contact or no slot that is switched "
    "on. Where the driver lists fewer cards than the bus, it has given up on the others."
)
_WHY_LOST = (
    "A card that answers nothing any more has fallen off the bus: power that sags under load, a "
    "riser or a cable, heat, or a card that dies. Whatever ran on it hangs or has failed. Each "
    "power socket of a card needs a cable of its own. If the same card stays away in another slot "
    "and on other cables, it is the card; if another one is missing then, it is the slot, the "
    "riser or the power supply."
)
_SEEK = (
    "power off, reseat the card, its riser and its power cables (one cable for each socket), and "
    "look for Xid 79 in the log of the boot before. If the same card stays away in another slot "
    "and on other cables, it is the card; if another one is missing then, it is the slot, the "
    "riser or the power supply"
)
_WATCH = (
    "ask `nvidia-smi -q` again after a reboot. If the card works and only this value stays away, "
    "the driver cannot read it; if more values go, or Xids name the card, the card fails"
)

NOT_WOKEN: Final = "it did not answer when it was woken"
_WAKE: Final = (
    "switch the machine off and on, which takes the card's power. Where a virtual machine had the "
    "card, keep it awake from then on: `echo 0 >/sys/bus/pci/devices/{address}/d3cold_allowed`, or "
    "`options vfio-pci disable_idle_d3=1` in /etc/modprobe.d; where nouveau has it: the kernel "
    "argument nouveau.runpm=0"
)

_LOST: Final = "[NV_ERR_GPU_IS_LOST]"
UNREACHABLE: Final = re.compile(
    rf"^NVRM: .{{0,300}}{re.escape(_LOST)}|"
    r"^[A-Za-z0-9_-]{1,32} (?P<address>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): "
    r"(?:(?:Unable to|can't) change power state from [A-Za-z0-9]{1,10} to D0.{0,16}inaccessible|"
    r"not ready [0-9]{1,9}ms after [A-Za-z ]{1,40}; giving up)"
)


@Check(
    "gpu.count",
    needs_gpu=False,
    needs=(*views.COUNTS_CARDS, NVIDIA_VERSION),
    fixes=("hands",),
    keys=frozenset({"gpus"}),
    cause_rank=120,
    essential=True,
)
def count(examined: Examined) -> Finding:
    """Every card that belongs here is here.

    Counts the NVIDIA display devices on the bus (sysfs and lspci), those that nvidia-smi lists, and
    those that the inventory declares in `gpus`: a number, models or UUIDs. A card that has fallen
    off the bus counts as missing. A failing nvidia-smi does not mean that there is no card, and
    where other drivers have the cards it is not used. Without any NVIDIA device and without a
    declaration this is information.
    """
    if views.has_no_gpu(examined):
        return _count("info", "there is no NVIDIA GPU, and none is declared", ())
    losses = lost_cards(examined)
    living = [card for card in examined.cards if card.address not in losses]
    missing = _missing_cards(examined, living)
    unlisted = _not_listed(examined, living)
    complaints = [*missing.certain]
    if losses:
        names = ("one that is not named" if one == UNNAMED else one for one in losses)
        complaints.append(f"lost: {', '.join(names)}")
    if unlisted:
        complaints.append(f"on the bus, and not in nvidia-smi's list: {', '.join(unlisted)}")
    evidence = [
        *(one for loss in losses.values() for one in evidence_of(loss)),
        *(Evidence(SMI.name, line) for line in examined.snapshot[SMI].or_empty.failure_lines),
        *(one for card in examined.cards for one in _line_of(card)),
    ]
    if complaints:
        is_all_lost = (
            losses and not unlisted and len(examined.cards) >= (views.declared_count(examined) or 0)
        )
        failure = _count("fail", "; ".join(complaints), evidence, ADVICE if is_all_lost else _SEEK)
        told = [*losses, *unlisted]
        is_all_told = is_all_lost or not missing.certain
        return replace(failure, data={"devices": told}) if is_all_told else failure
    if examined.snapshot.bundle.paste and views.declared_count(examined) is None:
        return _pasted(examined, evidence)
    doubt = missing.possible or _doubt(examined)
    if doubt:
        return _count("unknown", doubt, evidence)
    there, declared = len(examined.cards), views.declared_count(examined)
    if declared is not None and there > declared:
        return _count("info", f"{_cards(there)}, {declared} declared", evidence)
    return _count("ok", _cards(there) + (", as declared" if declared else ""), evidence)


def _line_of(card: Card) -> tuple[Evidence, ...]:
    """None of a card that a log or a program alone names."""
    sources = ((PCI, card.function), (LSPCI, card.lspci), (SMI, card.smi))
    found = (Evidence(section.name, one.line) for section, one in sources if one and one.line)
    return tuple(islice(found, 1))


def _count(status: Status, summary: str, evidence: Iterable[Evidence], fix: str = "") -> Finding:
    is_failure = status == "fail"
    return Finding(
        status,
        summary,
        tuple(dict.fromkeys(evidence)),
        why=_WHY_FEWER if is_failure else "",
        fix=fix_by_hand(fix) if fix else None,
    )


def _cards(number: int) -> str:
    return "1 card is there" if number == 1 else f"{number} cards are there"


def _pasted(examined: Examined, evidence: Sequence[Evidence]) -> Finding:
    """The cards that are in a paste; where it was cut there may be more."""
    snapshot = examined.snapshot
    cut = snapshot.bundle.paste.cut if snapshot.bundle.paste else ()
    named = Counter(card.name for card in examined.cards if card.smi or card.lspci)
    topology, peers = snapshot[TOPOLOGY].or_empty, snapshot[P2P_READ].or_empty
    number = max(sum(named.values()), len(topology.gpus), len(peers.gpus))
    if not evidence:
        section, rows = (TOPOLOGY, topology.rows) if topology.rows else (P2P_READ, peers.rows)
        evidence = [Evidence(section.name, row) for row in rows]
    if cut:
        return _count("unknown", f"{' and '.join(cut)}: the end is cut off", evidence)
    if not number:
        return _count("unknown", "no card is listed", evidence)
    cards = ", ".join(f"{count}x {name.removeprefix('GeForce ')}" for name, count in named.items())
    links = topology.links.items()
    paths = "/".join(sorted({link for (one, other), link in links if one != other}))
    parts = [
        "1 card" if number == 1 else f"{number} cards",
        f": {cards}" if cards else "",
        f", {paths} between them" if paths else "",
    ]
    return _count("ok", "".join(parts), evidence)


def _not_listed(examined: Examined, living: Sequence[Card]) -> list[str]:
    """nvidia-smi that fails as a whole says nothing about one card."""
    report = examined.snapshot[SMI].value
    if report is None or not examined.snapshot[SMI].is_complete:
        return []
    if report.failure == "no-devices":
        return [card.address for card in living if _driver(card) == _NVIDIA]
    if report.failure or not report.is_complete:
        return []
    return [
        card.address for card in living if card.smi is None and _driver(card) in {_NVIDIA, None}
    ]


def _driver(card: Card) -> str | None:
    function = card.function
    bound = function.driver if function and pcie.is_complete(function) else None
    return bound or (card.lspci.driver if card.lspci else None)


def _doubt(examined: Examined) -> str:
    """Why there may be other cards, or cards without a driver; else empty."""
    snapshot = examined.snapshot
    if not examined.cards or not views.sees_the_bus(examined):
        return "which cards are on the bus could not be read to the end"
    if snapshot[PCI].value is None and snapshot[LSPCI].unparsed:
        return "not every line of lspci could be read"
    if (views.gpu_count(examined) or 0) > len(examined.cards):
        return "the driver reports more cards than the bus"
    if views.is_listed_whole(examined) or not _may_be_driven(examined):
        return ""
    seen = _cards(len(examined.cards))
    if snapshot[SMI].value is None:
        return f"{seen}, and which of them the driver has was not collected"
    return f"{seen}, and nvidia-smi did not list those that the driver has"


@once
def _may_be_driven(examined: Examined) -> bool:
    """Not where no driver is loaded, nor where another one has them, such as vfio-pci."""
    drivers = {_driver(card) for card in examined.cards}
    loaded = examined.snapshot[NVIDIA_VERSION].value
    is_absent = loaded is not None and not loaded.is_loaded
    return _NVIDIA in drivers or (None in drivers and not is_absent)


@Check(
    "gpu.lost",
    needs=(NVIDIA_VERSION, LSPCI, SMI, KERNEL_LOG),
    fixes=("hands",),
    cause_rank=110,
)
def lost(examined: Examined) -> Finding | list[Finding]:
    """Every card answers.

    A card that dropped off the bus reads as (rev ff) in lspci, is named by an error line of
    nvidia-smi, or has ERR! or Unknown Error for most values that only the card can measure:
    temperature, fan, clocks, load. One such value is a warning; power alone that cannot be read is
    normal on some models, and a setting or a property that cannot be read says nothing of the card.
    Lost is also a card that nvidia-smi does not list and that reads as all ones on the bus (a link
    of 63 lanes), or of which this boot's kernel log has `NV_ERR_GPU_IS_LOST`, or `Unable to change
    power state from D3cold to D0, device inaccessible`. Since when is the time of its Xid 79. A
    laptop's card that bbswitch has switched off is not lost.
    """
    losses = {**_logged(examined), **lost_cards(examined)}
    names = {card.address: f"{card.name}: " for card in examined.cards if card.name != NO_NAME}
    gone = [
        Finding(
            "fail",
            f"{loss.state}: {names.get(address, '')}{loss.reason}",
            evidence_of(loss),
            subject=f"gpu {address}",
            why=_WHY_LOST,
            fix=wake(address) if loss.reason == NOT_WOKEN else fix_by_hand(ADVICE),
        )
        for address, loss in losses.items()
    ]
    if is_switched_off(examined):
        gone = [_switched_off(names, loss) for loss in silent_cards(examined).values()]
    living = [card for card in examined.cards if card.address not in losses]
    odd = [_odd(card, card.smi) for card in living if card.smi and card.smi.troubles]
    unsure = [card.address for card in living if not _answers(examined, card)]
    found = [*gone, *odd]
    is_sure = living and not unsure and views.sees_all_driven(examined)
    if all(one.status == "info" for one in found) and not is_sure:
        who = ", ".join(unsure) or "every card"
        found.append(Finding("unknown", f"whether {who} would answer is not known"))
    return found or Finding("ok", "every card answers")


def wake(address: str) -> Fix:
    return fix_by_hand(_WAKE.format(address=address))


def _switched_off(names: Mapping[str, str], loss: LostCard) -> Finding:
    return Finding(
        "info",
        f"{names.get(loss.address, '')}bbswitch has switched it off, so that it answers nothing",
        evidence_of(loss),
        subject=f"gpu {loss.address}",
    )


def _logged(examined: Examined) -> dict[str, LostCard]:
    """By address, which may be "unknown": those of which the kernel has logged it."""
    log = examined.snapshot[KERNEL_LOG].or_empty
    slots = {card.address.rpartition(".")[0] for card in examined.cards}
    dropped = {xid.address for xid in log.xids if xid.number == OFF_THE_BUS and not xid.entry.boot}
    found: dict[str, list[LogLine]] = {}
    for entry in log.matching(UNREACHABLE):
        shape = UNREACHABLE.search(entry.message)
        address = normal((shape and shape["address"]) or "")
        is_card = address is None or entry.message.startswith("nvidia ")
        if not (is_card or (address or "").rpartition(".")[0] in slots):
            continue
        if address is None and len(dropped) == 1:
            (address,) = dropped
        slot = address and f"{address.rpartition('.')[0]}.0"
        found.setdefault(subject_of(examined, slot), []).append(entry)
    return {
        address: LostCard(
            address,
            NOT_WOKEN
            if address not in dropped and not any(_LOST in one.message for one in entries)
            else "it does not answer any more, as the kernel log has it",
            tuple((one.section, one.line) for one in driver_state.cited(entries)),
        )
        for subject, entries in found.items()
        for address in [subject.removeprefix("gpu ")]
        if not answers(examined, subject)
    }


def _odd(card: Card, smi: SmiGpu) -> Finding:
    names = [path.replace("/", " ").replace("_", " ") for path in smi.troubles]
    is_measured = any(path.partition("/")[0] in MEASURED for path in smi.troubles)
    what = f"its {names[0]}" if len(names) == 1 else f"{len(names)} of its values"
    return Finding(
        "warn" if is_measured else "info",
        f"{card.name}: nvidia-smi cannot read {what}",
        tuple(Evidence(SMI.name, line) for line in smi.troubles.values()),
        subject=card.subject,
        why="A value that a card reported once and does not any more is often the first sign of a "
        "fan, a sensor or a card that fails."
        if is_measured
        else "The card measures and answers: this is a value that some drivers fail to read, or "
        "that some models do not have.",
        fix=fix_by_hand(_WATCH) if is_measured else None,
    )


def _answers(examined: Examined, card: Card) -> bool:
    """On the bus as lspci reads it, and to the driver that has it."""
    listed = examined.snapshot[LSPCI].value
    on_bus = listed is not None and (card.lspci is not None or not listed.functions)
    if card.smi is not None and views.is_listed_whole(examined):
        return on_bus
    return card.lspci is not None and not _may_be_driven(examined)


@dataclass(frozen=True)
class Missing:
    certain: tuple[str, ...] = ()
    possible: str = ""


def _missing_cards(examined: Examined, living: Sequence[Card]) -> Missing:
    wanted = examined.spec.gpus
    if wanted is None:
        return Missing()
    declared = views.declared_count(examined) or 0
    if len(living) < declared:
        words = f"{declared} declared, {len(living)} there"
        return (
            _of_models(examined, wanted, living, words)
            if views.sees_the_bus(examined)
            else Missing(possible="fewer cards are seen than declared, and not all could be read")
        )
    if wanted.uuids:
        return _uuids(examined, wanted.uuids)
    return _of_models(examined, wanted, living, "")


def _of_models(
    examined: Examined, wanted: ExpectedGpus, living: Sequence[Card], words: str
) -> Missing:
    """Cards without a name may be any of them."""
    unnamed = sum(card.model is None and card.smi is None for card in living)
    short = [
        (name, count - there)
        for name, count in wanted.models
        if (there := sum(_is_a(examined.catalog, card, name) for card in living)) < count
    ]
    names = tuple(f"{lack} of {name} missing" for name, lack in short)
    if words:
        return Missing(certain=(words, *names))
    if names and sum(lack for _, lack in short) <= unnamed:
        return Missing(possible=f"{', '.join(names)}, unless it is one that could not be named")
    return Missing(certain=names)


def _is_a(catalog: Catalog, card: Card, name: str) -> bool:
    called = (card.name, card.smi.name if card.smi else None)
    return card.model in find_gpu(catalog, name).found or any(
        _plain(name) in _plain(one) for one in called if one
    )


def _plain(name: str) -> str:
    return " ".join(name.lower().replace("-", " ").split())


def _uuids(examined: Examined, wanted: Sequence[str]) -> Missing:
    known = {card.smi.uuid for card in examined.cards if card.smi and card.smi.uuid}
    absent = [uuid for uuid in wanted if uuid not in known]
    if not absent:
        return Missing()
    if any(card.smi is None or card.smi.uuid is None for card in examined.cards):
        return Missing(possible=f"{', '.join(absent)}: not every card could be asked for its UUID")
    return Missing(certain=(f"{', '.join(absent)} missing",))
