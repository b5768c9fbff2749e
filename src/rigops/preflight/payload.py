"""The answer of the program on the host. Each text becomes one printable line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final

from rigops.dataclass import dataclass
from rigops.errors import RigopsError
from rigops.hostside.p2p.verdict import ALL_REDUCE, LEVELS
from rigops.json_dataclass import NAME, from_json
from rigops.json_fields import Fields
from rigops.preflight.changes import Around
from rigops.preflight.found import CollectivesFound, GpuSeen, Machine, PairFound, one_of
from rigops.probe.lost_cards import LostCard

SCHEMA: Final = "rigops.preflight-payload/1"
_LONGEST: Final = 500
_WHOLE: Final = ("topology", "smi")  # outputs that have parsers of their own
_REQUIRED: Final = ("boot_id", "processor", "topology", "gpus", "jobs", "pairs", "troubles")
_TOLD: Final = (
    *_REQUIRED,
    "at",
    "machine",
    "shared_memory",
    "flows",
    "collectives",
    "meanwhile",
    "needs_reboot",
)
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
class Port:
    """`id`: of its vendor and device."""

    address: str
    id: str


@dataclass(frozen=True)
class Above:
    """Ports above a card, that of the CPU first, and the node of that CPU."""

    ports: tuple[Port, ...]
    node: int | None


@dataclass(frozen=True)
class Flow:
    """A pair while others copied too: in its turn a card sends to one and receives from one."""

    turn: int
    source: str = field(metadata={NAME: "from"})
    target: str = field(metadata={NAME: "to"})
    gb_per_s: float | None = None


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
    above: Mapping[str, Above] = field(default_factory=dict)  # by address, where it is known
    on_bus: int = 0
    shared_memory: int | None = None  # bytes that /dev/shm may have
    jobs: tuple[Job, ...] = ()
    pairs: tuple[PairFound, ...] = ()
    flows: tuple[Flow, ...] = ()
    collectives: CollectivesFound = CollectivesFound()
    # None: nothing was copied.
    around: Around | None = field(default=None, metadata={NAME: "meanwhile"})
    troubles: tuple[Trouble, ...] = ()
    needs_reboot: bool = False
    is_partial: bool = False  # --pairs left out some that the driver grants


def read_answer(output: bytes) -> PayloadReport | None:
    """None where the program did not finish.

    Raises:
        RigopsError: a field of the result is not what the program writes.
    """
    for line in reversed(output.splitlines()):
        event = _event(line)
        result = event.get("result") if isinstance(event, dict) else None
        if isinstance(result, dict) and result.get("schema") == SCHEMA:
            return _answer(result)
    return None


def read_event(line: bytes) -> Event | None:
    """None for any other line: the driver prints some too."""
    try:
        event = Fields(_event(line), place="an event of the preflight program")
        if event.text("event") == "pair":
            return Event(pair=from_json(PairFound, event.nested("pair")))
        if event.text("event") == "stage":
            rung = one_of((*LEVELS, ALL_REDUCE))(event, "rung")
            return Event(stage=Stage(rung, event.text("text")))
        pair = event.raw("pair")
        if isinstance(pair, list) and len(pair) == 2:  # noqa: PLR2004 - a pair
            rung = one_of(("", *LEVELS))(event, "rung")
            return Event(step=Step((int(pair[0]), int(pair[1])), event.text("step"), rung))
    except (ValueError, TypeError, OverflowError, RigopsError):
        pass
    return None


def _event(line: bytes) -> object:
    """None for what the driver prints."""
    try:
        return _printable(json.loads(line))
    except (ValueError, RecursionError):
        return None


def _printable(value: object, name: str = "") -> object:
    if isinstance(value, str):
        return value if name in _WHOLE else plain(value)
    if isinstance(value, list):
        return [_printable(one, name) for one in value]
    if isinstance(value, dict):
        return {key: _printable(one, key) for key, one in value.items()}
    return value


def _answer(result: Mapping[str, object]) -> PayloadReport:
    place = "the result of the preflight program"
    told = Fields({name: result[name] for name in _TOLD if name in result}, place=place)
    for name in _REQUIRED:
        if told.raw(name) is None:
            raise told.wrong(name, None, "given")
    on_bus = Fields(result, place=place).each("on_bus")
    return replace(
        from_json(PayloadReport, told),
        driven=tuple(card.text("address") for card in on_bus if card.raw("driver") == "nvidia"),
        gone=tuple(card.text("address") for card in on_bus if card.raw("is_gone") is True),
        slots={card.text("address"): slot for card in on_bus if (slot := _slot(card))},
        above={
            card.text("address"): from_json(Above, card) for card in on_bus if card.raw("ports")
        },
        on_bus=len(on_bus),
    )


def _slot(card: Fields) -> Slot | None:
    texts = card.raw("max_links")
    found = [_LINK.fullmatch(str(text)) for text in texts] if isinstance(texts, list) else []
    links = [(_GENERATIONS.get(one[1], 0), int(one[2])) for one in found if one]
    if not links or not all(generation and width for generation, width in links):
        return None
    return Slot(min(one for one, _ in links), min(width for _, width in links))


def plain(text: str) -> str:
    """One printable line."""
    words = "".join(c if c.isprintable() else " " for c in text)
    shown = " ".join(words.split())
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"
