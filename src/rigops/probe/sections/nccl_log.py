"""What NCCL logs with NCCL_DEBUG=WARN or INFO, whichever program has it do so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from rigops.dataclass import dataclass
from rigops.probe.section import Section
from rigops.probe.text import stripped

Transport = Literal["P2P", "SHM", "NET", "other"]

_MARK = re.compile(r"\bNCCL (?:INFO|WARN) (?P<message>.*)")
_VERSION = re.compile(r"\bNCCL version (?P<version>[0-9]{1,3}(?:\.[0-9]{1,4}){1,3})")
_CHANNEL = re.compile(
    r"(?:Channel|Ring) [0-9/]{1,12} ?: (?P<source>[0-9]{1,5})\[[0-9a-f]{1,12}\] -> "
    r"(?P<target>[0-9]{1,5})\[[0-9a-f]{1,12}\] (?:\[(?:send|receive)\] )?via (?P<way>\S.{0,80})"
)
_SETTING = re.compile(r"(?P<name>NCCL_[A-Z0-9_]{1,60}) set by environment to (?P<value>.{1,120})")
_INIT = re.compile(
    r".{0,300}\brank (?P<rank>[0-9]{1,5}) .{0,300}- Init (?P<state>START|COMPLETE)\b.*"
)
_WAYS: tuple[tuple[str, Transport], ...] = (
    ("P2P", "P2P"), ("direct pointer", "P2P"),
    ("SHM", "SHM"), ("direct shared memory", "SHM"),
    ("NET", "NET"), ("COLLNET", "NET"),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class NcclLog:
    """`ways`: an example line of each transport, as NCCL writes it, such as P2P/CUMEM.

    `started`, `completed`: lines of ranks whose communicator is being made, and is made.
    """

    version: str | None = None
    ways: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)  # name to value
    setting_lines: Mapping[str, str] = field(default_factory=dict)
    started: int = 0
    completed: int = 0
    last_line: str = ""
    unparsed: tuple[str, ...] = ()

    @property
    def transports(self) -> frozenset[Transport]:
        return frozenset(map(transport, self.ways))


def transport(way: str) -> Transport:
    return next((kind for words, kind in _WAYS if way.startswith(words)), "other")


def parse(text: str) -> NcclLog:
    found = stripped(text)
    entries = list(_entries(found))
    version = next(filter(None, map(_VERSION.search, found)), None)
    ways: dict[str, str] = {}
    settings: dict[str, str] = {}
    setting_lines: dict[str, str] = {}
    for line, message in entries:
        channel, setting = _CHANNEL.match(message), _SETTING.match(message)
        if channel:
            ways.setdefault(channel["way"].strip(), line)
        elif setting:
            settings[setting["name"]] = setting["value"].strip().removesuffix(".")
            setting_lines[setting["name"]] = line
    inits = [one for _, message in entries if (one := _INIT.fullmatch(message))]
    return NcclLog(
        version=version["version"] if version else None,
        ways=ways,
        settings=settings,
        setting_lines=setting_lines,
        started=sum(one["state"] == "START" for one in inits),
        completed=sum(one["state"] == "COMPLETE" for one in inits),
        last_line=entries[-1][0] if entries else "",
        unparsed=() if entries or version else tuple(found),
    )


def _entries(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Of each line of the log: the line and its message."""
    for line in lines:
        mark = _MARK.search(line)
        if mark:
            yield line, mark["message"].strip()


SECTION = Section(
    name="nccl-log",
    snippet="",
    parse=parse,
    technical="NCCL INFO WARN version Channel Ring send receive Could not enable between disabled "
    "environment rank Init START COMPLETE iommu kernel command line NUMA auto balancing failure "
    "peer access supported shared memory segment space left device memlock socket timeout "
    "duplicate detected interface found bootstrap cannot allocate control services failed extend "
    "mismatch unhandled call direct pointer CUMEM",
)
