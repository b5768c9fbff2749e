"""How the driver sees the way from card to card: `nvidia-smi topo -m`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rigops.probe.smi import smi_section
from rigops.probe.text import lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GPU = re.compile(r"GPU(?P<index>[0-9]{1,3})")
_DEVICE = re.compile(r"(?:GPU|NIC)[0-9]{1,3}|[a-z][a-z0-9_.-]{1,30}")  # older ones name the NIC
_SELF = "X"
_LINK = re.compile(r"NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS|SOC")
_TITLES = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID", re.IGNORECASE)
_NUMBERED = re.compile(r"[0-9]\Z")  # of a last line with no end, the number may go on
_NUMA = "numa affinity"
_NODES = re.compile(r"[0-9]{1,4}(?:[,-][0-9]{1,4}){0,64}")
_MOST = 256  # no machine has as many devices; a longer line is no header
_PASTED = ("== ", "$ ", "#")


@dataclass(frozen=True)
class Topology:
    """`links` by (row, column) in nvidia-smi's numbering: NV4, PIX, PXB, PHB, NODE, SYS."""

    gpus: tuple[int, ...] = ()
    links: Mapping[tuple[int, int], str] = field(default_factory=dict)
    numa: Mapping[int, str] = field(default_factory=dict)
    rows: tuple[str, ...] = ()  # as they were printed
    unparsed: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Header:
    devices: tuple[str, ...]
    titles: tuple[str, ...]


def parse(text: str) -> Topology:
    header: _Header | None = None
    links: dict[tuple[int, int], str] = {}
    numa: dict[int, str] = {}
    rows: list[str] = []
    unparsed: list[str] = []
    found = lines(text)
    unended = len(found) - 1 if not text.endswith("\n") else None
    for place, line in enumerate(found):
        if not line.strip():
            if rows:
                break  # the legend follows, with the words of the table
        elif header is None:
            header = _header(line)
            if header is None and not line.startswith(_PASTED):
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
                node = _numa(line, header)
                numa |= {index: node} if node else {}
    gpus = tuple(_gpus(header.devices)) if header else ()
    return Topology(gpus, links, numa, tuple(rows), tuple(unparsed))


def _header(line: str) -> _Header | None:
    first = _TITLES.search(line)
    devices = line[: first.start() if first else len(line)].split()
    if len(devices) > _MOST or not _gpus(devices) or not all(map(_DEVICE.fullmatch, devices)):
        return None
    return _Header(tuple(devices), tuple(title.lower() for title in _TITLES.findall(line)))


def _gpus(devices: Sequence[str]) -> dict[int, int]:
    """The place of each GPU among the devices."""
    found = [(_GPU.fullmatch(device), place) for place, device in enumerate(devices)]
    return {int(gpu["index"]): place for gpu, place in found if gpu}


def _cells(line: str, header: _Header) -> dict[int, str] | None:
    """How a row reaches each GPU; None for what is no row of this table."""
    name, *words = line.split()
    cells = words[: len(header.devices)]
    is_row = name in header.devices and len(cells) == len(header.devices)
    if not is_row or not all(cell == _SELF or _LINK.fullmatch(cell) for cell in cells):
        return None
    return {gpu: cells[place] for gpu, place in _gpus(header.devices).items()}


def _numa(line: str, header: _Header) -> str | None:
    """By tabs, as printed, where a cell may be empty; a pasted copy has blanks for tabs."""
    if _NUMA not in header.titles:
        return None
    by_tabs = [cell.strip() for cell in line.rstrip().split("\t")]
    after = by_tabs[len(header.devices) + 1 :]
    if len(by_tabs) == 1:
        after = line.split()[len(header.devices) + 1 :]
    elif len(after) == len(header.titles) + 1 and after[-2] == "":
        del after[-2]  # the last column has two tabs before it
    if len(after) != len(header.titles):
        return None
    node = after[header.titles.index(_NUMA)]
    return node if _NODES.fullmatch(node) else None


SECTION = smi_section("nvidia-smi-topo", "topo -m", parse)
