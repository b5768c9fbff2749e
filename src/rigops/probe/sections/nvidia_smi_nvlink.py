"""The NVLinks of each card: their speed (`nvidia-smi nvlink -s`), what went wrong there (`-e`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rigops.probe.smi import smi_section
from rigops.probe.text import lines

if TYPE_CHECKING:
    from collections.abc import Mapping

_GPU = re.compile(r"GPU (?P<index>[0-9]{1,3}): (?P<name>.{0,200}) \(UUID: (?P<uuid>[^()]{1,80})\)")
_LINK = re.compile(
    r"Link (?P<number>[0-9]{1,3}): "
    r"(?:(?P<speed>[0-9]{1,9}(?:\.[0-9]{1,9})?) GB/s|<?(?P<inactive>inactive)>?)",
    re.IGNORECASE,
)
_COUNTER = re.compile(
    r"Link (?P<number>[0-9]{1,3}): (?P<name>[A-Za-z][A-Za-z0-9 -]{1,60}): (?P<count>[0-9]{1,20})"
)
_NO_LINKS = ("all links are inactive", "does not have or support nvlink")
_PASTED = ("== ", "$ ", "#")


@dataclass(frozen=True)
class NvLinkState:
    """One direction of one link. None is an inactive one, normal where nothing is wired."""

    number: int
    gb_per_s: float | None
    line: str


@dataclass(frozen=True)
class NvLinkErrors:
    """What one link has counted. None is what the driver does not list.

    For NVLink 5 it lists none of the three, but others, which are here under its own names.
    """

    number: int
    replay: int | None = None
    recovery: int | None = None
    crc: int | None = None
    others: Mapping[str, int] = field(default_factory=dict)
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class NvLinkGpu:
    """`no_links`: the line by which none is active, or the card has none."""

    index: int
    name: str
    uuid: str
    links: tuple[NvLinkState, ...] = ()
    no_links: str | None = None
    errors: tuple[NvLinkErrors, ...] = ()


@dataclass(frozen=True)
class NvLinks:
    gpus: tuple[NvLinkGpu, ...] = ()
    unparsed: tuple[str, ...] = ()


@dataclass
class _Card:
    """One card, which both answers name."""

    head: re.Match[str]
    no_links: str | None = None
    links: dict[int, NvLinkState] = field(default_factory=dict)
    counters: dict[int, dict[str, tuple[int, str]]] = field(default_factory=dict)

    def gpu(self) -> NvLinkGpu:
        return NvLinkGpu(
            index=int(self.head["index"]),
            name=self.head["name"].strip(),
            uuid=self.head["uuid"],
            links=tuple(self.links.values()),
            no_links=self.no_links,
            errors=tuple(_errors(number, counts) for number, counts in self.counters.items()),
        )


def _errors(number: int, output: Mapping[str, tuple[int, str]]) -> NvLinkErrors:
    counts = {name: count for name, (count, _) in output.items()}
    return NvLinkErrors(
        number,
        replay=counts.pop("Replay Errors", None),
        recovery=counts.pop("Recovery Errors", None),
        crc=counts.pop("CRC Errors", None),
        others=counts,
        lines=tuple(line for _, line in output.values()),
    )


def parse(text: str) -> NvLinks:
    cards: dict[tuple[str, str], _Card] = {}
    card: _Card | None = None
    unparsed: list[str] = []
    found = lines(text)
    for at, line in enumerate(found, start=1):
        plain = line.strip()
        gpu, link, counter = (one.fullmatch(plain) for one in (_GPU, _LINK, _COUNTER))
        if counter and at == len(found) and not text.endswith("\n"):
            counter = None  # 12 errors read as 1 where the line is incomplete
        if gpu:
            card = cards.setdefault((gpu["index"], gpu["uuid"]), _Card(gpu))
        elif card and link:
            number, speed = int(link["number"]), float(link["speed"]) if link["speed"] else None
            card.links[number] = NvLinkState(number, speed, line)
        elif card and counter:
            counters = card.counters.setdefault(int(counter["number"]), {})
            counters[counter["name"]] = int(counter["count"]), line
        elif card and any(words in plain.lower() for words in _NO_LINKS):
            card.no_links = line
        elif plain and not line.startswith(_PASTED):
            unparsed.append(line)
    return NvLinks(tuple(one.gpu() for one in cards.values()), tuple(unparsed))


SECTION = smi_section("nvidia-smi-nvlink", "nvlink -s", parse)
