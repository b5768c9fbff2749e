"""How the driver sees the way from card to card: `nvidia-smi topo -m`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field

from rigops.dataclass import dataclass
from rigops.probe.smi import smi_section
from rigops.probe.text import lines

_GPU = re.compile(r"GPU(?P<index>[0-9]{1,3})")
_DEVICE = re.compile(r"(?:GPU|NIC)[0-9]{1,3}|[a-z][a-z0-9_.-]{1,30}")  # older ones name the NIC
_SELF = "X"
_LINK = re.compile(r"NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS|SOC")
_TITLES = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID", re.IGNORECASE)
_NUMBERED = re.compile(r"[0-9]\Z")  # of a last line with no end, the number may go on
_MOST = 256  # no machine has as many devices; a longer line is no header
_PASTED = ("== ", "$ ", "#")


@dataclass(frozen=True)
class Topology:
    """`links` by (row, column) in nvidia-smi's numbering: NV4, PIX, PXB, PHB, NODE, SYS."""

    gpus: tuple[int, ...] = ()
    links: Mapping[tuple[int, int], str] = field(default_factory=dict)
    rows: tuple[str, ...] = ()  # as they were printed
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Topology:
    header: list[str] = []
    links: dict[tuple[int, int], str] = {}
    rows: list[str] = []
    unparsed: list[str] = []
    found = lines(text)
    unended = len(found) - 1 if not text.endswith("\n") else None
    for place, line in enumerate(found):
        if not line.strip():
            if rows:
                break  # the legend follows, with the words of the table
        elif not header:
            header = _header(line)
            if not header and not line.startswith(_PASTED):
                unparsed.append(line)
        else:
            cells = _cells(line, header)
            is_incomplete = place == unended and _NUMBERED.search(line) is not None
            if cells is None or is_incomplete:
                unparsed.append(line)
                continue
            rows.append(line)
            row = _GPU.fullmatch(line.split()[0])
            if row:
                index = int(row["index"])
                links |= {(index, other): cell for other, cell in cells.items() if other != index}
    return Topology(tuple(_gpus(header)), links, tuple(rows), tuple(unparsed))


def _header(line: str) -> list[str]:
    """The devices that it names; none where it is no header."""
    first = _TITLES.search(line)
    devices = line[: first.start() if first else len(line)].split()
    if len(devices) > _MOST or not _gpus(devices) or not all(map(_DEVICE.fullmatch, devices)):
        return []
    return devices


def _gpus(devices: Sequence[str]) -> dict[int, int]:
    """The place of each GPU among the devices."""
    found = [(_GPU.fullmatch(device), place) for place, device in enumerate(devices)]
    return {int(gpu["index"]): place for gpu, place in found if gpu}


def _cells(line: str, devices: list[str]) -> dict[int, str] | None:
    """How a row reaches each GPU; None for what is no row of this table."""
    name, *words = line.split()
    cells = words[: len(devices)]
    is_row = name in devices and len(cells) == len(devices)
    if not is_row or not all(cell == _SELF or _LINK.fullmatch(cell) for cell in cells):
        return None
    return {gpu: cells[place] for gpu, place in _gpus(devices).items()}


SECTION = smi_section("nvidia-smi-topo", "topo -m", parse, lane="peers")
