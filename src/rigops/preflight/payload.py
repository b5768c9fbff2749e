"""The answer of the program on the host. Each text becomes one printable line."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final

from rigops.dataclass import dataclass
from rigops.errors import RigopsError
from rigops.hostside.p2p.verdict import ALL_REDUCE, COLLECTIVES, LEVELS, VERDICTS
from rigops.json_fields import Fields
from rigops.preflight.changes import Around, Change, LinkSeen
from rigops.preflight.found import CollectivesFound, GpuSeen, Machine, PairFound

if TYPE_CHECKING:
    from rigops.probe.lost_cards import LostCard

SCHEMA: Final = "rigops.preflight-payload/1"
_LONGEST: Final = 500
_LINK: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s[ A-Za-z]{0,20} x([0-9]{1,2})")
_GENERATIONS: Final = {
    rate: number for number, rate in enumerate(("2.5", "5.0", "8.0", "16.0", "32.0", "64.0"), 1)
}


@dataclass(frozen=True)
class Slot:
    """The speed that a card and the port above it both support."""

    generation: int
    width: int


@dataclass(frozen=True)
class Job:
    """A process that computes on a card."""

    address: str
    pid: int
    name: str


@dataclass(frozen=True)
class Trouble:
    kind: str
    message: str


@dataclass(frozen=True)
class Step:
    pair: tuple[int, int]  # numbers of the GPUs
    name: str
    rung: str = ""  # empty before the first


@dataclass(frozen=True)
class Stage:
    rung: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Event:
    """One of these: a pair that is finished, a step of one, or a rung that begins for all."""

    pair: PairFound | None = None
    step: Step | None = None
    stage: Stage | None = None


@dataclass(frozen=True, kw_only=True)
class PayloadReport:
    boot_id: str = ""
    at: float | None = None  # seconds since 1970, by the host's clock
    processor: str = ""
    machine: Machine = Machine()
    topology: str = ""
    gpus: tuple[GpuSeen, ...] = ()
    driven: tuple[str, ...] = ()  # addresses of cards that are bound to NVIDIA's driver
    gone: tuple[str, ...] = ()  # of those, what answered nothing on the bus
    lost: tuple[LostCard, ...] = ()  # before anything was copied
    slots: Mapping[str, Slot] = field(default_factory=dict)  # by address, where it is known
    on_bus: int = 0
    jobs: tuple[Job, ...] = ()
    pairs: tuple[PairFound, ...] = ()
    collectives: CollectivesFound = CollectivesFound()
    around: Around | None = None  # None: nothing was copied
    troubles: tuple[Trouble, ...] = ()
    needs_reboot: bool = False
    is_partial: bool = False  # --pairs left out some that the driver grants


def read_answer(output: bytes) -> PayloadReport | None:
    """None where the program did not finish.

    Raises:
        RigopsError: a field of the result is not what the program writes.
    """
    for line in reversed(output.splitlines()):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):  # not an event: the driver prints lines too
            continue
        result = event.get("result") if isinstance(event, dict) else None
        if isinstance(result, dict) and result.get("schema") == SCHEMA:
            return _answer(Fields(result, place="the result of the preflight program"))
    return None


def read_event(line: bytes) -> Event | None:
    """None for any other line: the driver prints some too."""
    try:
        event = Fields(json.loads(line), place="an event of the preflight program")
        if event.text("event") == "pair":
            return Event(pair=_pair(Fields(event.raw("pair"), place="its pair")))
        if event.text("event") == "stage":
            return Event(
                stage=Stage(
                    _one_of((*LEVELS, ALL_REDUCE), event, "rung"), plain(event.text("text"))
                )
            )
        pair = event.raw("pair")
        if isinstance(pair, list) and len(pair) == 2:  # noqa: PLR2004 - a pair
            rung = _one_of(("", *LEVELS), event, "rung")
            return Event(step=Step((int(pair[0]), int(pair[1])), plain(event.text("step")), rung))
    except (ValueError, TypeError, OverflowError, RecursionError, RigopsError):
        pass
    return None


def _answer(result: Fields) -> PayloadReport:
    on_bus, machine = result.each("on_bus"), result.nested("machine")
    return PayloadReport(
        boot_id=plain(result.text("boot_id")),
        at=result.number_or_none("at"),
        processor=plain(result.text("processor")),
        machine=Machine(
            plain(machine.text("board")),
            plain(machine.text("kernel")),
            plain(machine.text("driver")),
        ),
        topology=result.text("topology"),
        gpus=tuple(
            GpuSeen(plain(gpu.text("address")), plain(gpu.text("name")))
            for gpu in result.each("gpus")
        ),
        driven=tuple(
            plain(card.text("address")) for card in on_bus if card.raw("driver") == "nvidia"
        ),
        gone=tuple(plain(card.text("address")) for card in on_bus if card.raw("is_gone") is True),
        slots={plain(card.text("address")): slot for card in on_bus if (slot := _slot(card))},
        on_bus=len(on_bus),
        jobs=tuple(
            Job(plain(job.text("address")), int(job.number("pid")), plain(job.text("name")))
            for job in result.each("jobs")
        ),
        pairs=tuple(_pair(pair) for pair in result.each("pairs")),
        collectives=_collectives(result.nested_or_none("collectives")),
        around=_around(result.raw("meanwhile")),
        troubles=tuple(
            Trouble(plain(trouble.text("kind")), plain(trouble.text("message")))
            for trouble in result.each("troubles")
        ),
        needs_reboot=result.raw("needs_reboot") is True,
    )


def _slot(card: Fields) -> Slot | None:
    texts = card.raw("max_links")
    found = [_LINK.fullmatch(str(text)) for text in texts] if isinstance(texts, list) else []
    links = [(_GENERATIONS.get(one[1], 0), int(one[2])) for one in found if one]
    if not links or not all(generation and width for generation, width in links):
        return None
    return Slot(min(one for one, _ in links), min(width for _, width in links))


def _around(found: object) -> Around | None:
    if found is None:
        return None
    read = Fields(found, place="meanwhile in the result of the preflight program")
    smi = (*read.texts("smi"), "", "")
    return Around(
        counted=tuple(
            Change(
                kind=plain(change.text("kind")),
                subject=plain(change.text("subject")),
                before=change.number("before"),
                after=change.number("after"),
            )
            for change in read.each("changes")
        ),
        links=tuple(
            LinkSeen(
                gpu=plain(link.text("gpu")),
                gt_per_s=link.number_or_none("gt_per_s"),
                lanes=link.number_or_none("lanes"),
            )
            for link in read.each("links")
        ),
        functions=tuple(map(plain, read.texts("functions"))),
        new_lines=tuple(map(plain, read.texts("kernel_log"))),
        smi_before=smi[0],
        smi_after=smi[1],
        unread=tuple(map(plain, read.texts("unread"))),
    )


def _pair(pair: Fields) -> PairFound:
    return PairFound(
        source=plain(pair.text("from")),
        target=plain(pair.text("to")),
        verdict=_one_of(VERDICTS, pair, "verdict"),
        level=_one_of(LEVELS, pair, "level"),
        gb_per_s=pair.number_or_none("gb_per_s"),
        both_ways_gb_per_s=pair.number_or_none("both_ways_gb_per_s"),
        staged_gb_per_s=pair.number_or_none("staged_gb_per_s"),
        latency_us=pair.number_or_none("latency_us"),
        round_trip_us=pair.number_or_none("round_trip_us"),
        evidence=tuple(map(plain, pair.texts("evidence"))),
    )


def _collectives(found: Fields | None) -> CollectivesFound:
    if found is None:
        return CollectivesFound()
    return CollectivesFound(
        verdict=_one_of(COLLECTIVES, found, "verdict"),
        cause=plain(found.text("cause")),
        evidence=tuple(map(plain, found.texts("evidence"))),
        library=plain(found.text("library")),
        version=plain(found.text("version")),
        p2p_gb_per_s=found.number_or_none("p2p_gb_per_s"),
        control_gb_per_s=found.number_or_none("control_gb_per_s"),
    )


def _one_of(accepted: Collection[str], fields: Fields, name: str) -> str:
    found = fields.text(name)
    if found not in accepted:
        raise fields.wrong(name, found, ", ".join(accepted))
    return found


def plain(text: str) -> str:
    """One printable line."""
    words = "".join(c if c.isprintable() else " " for c in text)
    shown = " ".join(words.split())
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"
