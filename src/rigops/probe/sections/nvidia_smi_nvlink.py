"""The NVLinks of each card and their speed: `nvidia-smi nvlink -s`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rigops.probe.section import Section
from rigops.probe.smi.command import ask
from rigops.probe.text import lines

_GPU = re.compile(r"GPU (?P<index>[0-9]{1,3}): (?P<name>.{0,200}) \(UUID: (?P<uuid>[^()]{1,80})\)")
_LINK = re.compile(
    r"Link (?P<number>[0-9]{1,3}): "
    r"(?:(?P<speed>[0-9]{1,9}(?:\.[0-9]{1,9})?) GB/s|<?(?P<inactive>inactive)>?)",
    re.IGNORECASE,
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
class NvLinkGpu:
    """`no_links` is the line that says that none is active, or that the card has none."""

    index: int
    name: str
    uuid: str
    links: tuple[NvLinkState, ...] = ()
    no_links: str | None = None


@dataclass(frozen=True)
class NvLinks:
    gpus: tuple[NvLinkGpu, ...] = ()
    unread: tuple[str, ...] = ()


def parse(text: str) -> NvLinks:
    gpus: list[NvLinkGpu] = []
    links: list[list[NvLinkState]] = []
    unread: list[str] = []
    for line in lines(text):
        plain = line.strip()
        gpu, link = _GPU.fullmatch(plain), _LINK.fullmatch(plain)
        if gpu:
            gpus.append(NvLinkGpu(int(gpu["index"]), gpu["name"].strip(), gpu["uuid"]))
            links.append([])
        elif gpus and link:
            speed = float(link["speed"]) if link["speed"] else None
            links[-1].append(NvLinkState(int(link["number"]), speed, line))
        elif gpus and any(words in plain.lower() for words in _NO_LINKS):
            gpus[-1] = replace(gpus[-1], no_links=line)
        elif plain and not line.startswith(_PASTED):
            unread.append(line)
    found = zip(gpus, links, strict=True)
    return NvLinks(tuple(replace(gpu, links=tuple(own)) for gpu, own in found), tuple(unread))


SECTION = Section(
    name="nvidia-smi-nvlink",
    snippet=ask("nvlink -s"),
    parse=parse,
    timeout_s=20,
    asks_driver=True,
    needs="nvidia-smi",
)
