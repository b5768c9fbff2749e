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

    For NVLink 5 it lists none of the three, but others, which are kept under its own names.
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


class _Card:
    """One card, which both answers name."""

    def __init__(self, head: re.Match[str]) -> None:
        self.no_links: str | None = None
        self._head = head
        self._links: dict[int, NvLinkState] = {}
        self._counters: dict[int, dict[str, tuple[int, str]]] = {}

    def add_link(self, shape: re.Match[str], line: str) -> None:
        number, speed = int(shape["number"]), float(shape["speed"]) if shape["speed"] else None
        self._links[number] = NvLinkState(number, speed, line)

    def add_counter(self, shape: re.Match[str], line: str) -> None:
        of_link = self._counters.setdefault(int(shape["number"]), {})
        of_link[shape["name"]] = int(shape["count"]), line

    def gpu(self) -> NvLinkGpu:
        return NvLinkGpu(
            index=int(self._head["index"]),
            name=self._head["name"].strip(),
            uuid=self._head["uuid"],
            links=tuple(self._links.values()),
            no_links=self.no_links,
            errors=tuple(_errors(number, said) for number, said in self._counters.items()),
        )


def _errors(number: int, said: Mapping[str, tuple[int, str]]) -> NvLinkErrors:
    counts = {name: count for name, (count, _) in said.items()}
    return NvLinkErrors(
        number,
        replay=counts.pop("Replay Errors", None),
        recovery=counts.pop("Recovery Errors", None),
        crc=counts.pop("CRC Errors", None),
        others=counts,
        lines=tuple(line for _, line in said.values()),
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
            counter = None  # of 12 errors that were cut short, one is left
        if gpu:
            card = cards.setdefault((gpu["index"], gpu["uuid"]), _Card(gpu))
        elif card and link:
            card.add_link(link, line)
        elif card and counter:
            card.add_counter(counter, line)
        elif card and any(words in plain.lower() for words in _NO_LINKS):
            card.no_links = line
        elif plain and not line.startswith(_PASTED):
            unparsed.append(line)
    return NvLinks(tuple(one.gpu() for one in cards.values()), tuple(unparsed))


SECTION = smi_section("nvidia-smi-nvlink", "nvlink -s", parse)
