"""lspci's listing into one block for each function, however much of it was asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rigops.probe import address as addresses

_HEAD = re.compile(
    r"(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
    r"[ \t]+(?P<kind>[^:\"]{1,120}):[ \t]*(?P<name>.*)",
    re.IGNORECASE,
)
_CLASS = re.compile(r"\[([0-9a-f]{4})\]$|^(?:Class )?([0-9a-f]{4})$", re.IGNORECASE)
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]", re.IGNORECASE)
_ONLY_IDS = re.compile(r"([0-9a-f]{4}):([0-9a-f]{4})(?=$| \()", re.IGNORECASE)
_REVISION = re.compile(r"\(rev ([0-9a-f]{2})\)", re.IGNORECASE)
_NOTES = re.compile(r" \((?:rev|prog-if) ")
_AROUND = re.compile(r"== |\$ |# |\[sudo\] |[^\s@]{1,80}@[^$#]{1,200}[$#] ")

# Where only the words are there: the kinds that matter, in the words of pci.ids.
_KINDS = {
    "host bridge": 0x0600,
    "isa bridge": 0x0601,
    "pci bridge": 0x0604,
    "bridge": 0x0680,
    "vga compatible controller": 0x0300,
    "xga compatible controller": 0x0301,
    "3d controller": 0x0302,
    "display controller": 0x0380,
    "audio device": 0x0403,
}
_NVIDIA = (0x10DE, "nvidia corporation")


@dataclass(frozen=True)
class Head:
    """The first line of a function. The name is without numbers and revision."""

    address: str
    name: str
    line: str
    vendor: int | None
    device: int | None
    pci_class: int | None
    revision: str | None


@dataclass
class Block:
    head: Head
    lines: list[str] = field(default_factory=list)
    is_closed: bool = False  # something follows, so that the end is not cut off


def split(lines: list[str]) -> tuple[list[Block], list[str]]:
    """What follows a head belongs to it; what follows none, or looks like no lspci, is unparsed."""
    blocks: list[Block] = []
    unparsed: list[str] = []
    current: Block | None = None
    for line in lines:
        head = read_head(line)
        if head is not None:
            if current is not None:
                current.is_closed = True
            current = Block(head)
            blocks.append(current)
        elif not line.strip():
            if current is not None:
                current.is_closed = True
        elif current is None:
            if not _AROUND.match(line):
                unparsed.append(line)
        else:
            current.lines.append(line.strip())
            if not line[0].isspace() and not _AROUND.match(line):
                unparsed.append(line)
    return blocks, unparsed


def read_head(line: str) -> Head | None:
    shape = _HEAD.fullmatch(line.strip())
    where = addresses.normal(shape["address"]) if shape else None
    if shape is None or where is None:
        return None
    text, kind = shape["name"], shape["kind"].strip()
    name, vendor, device = identity(text)
    revision = _REVISION.search(text)
    return Head(
        address=where,
        name=name,
        line=line.strip(),
        vendor=vendor,
        device=device,
        pci_class=_class(kind),
        revision=revision[1].lower() if revision else None,
    )


def identity(text: str) -> tuple[str, int | None, int | None]:
    """The name without numbers and notes, the vendor, the device."""
    bare = _NOTES.split(text, maxsplit=1)[0].strip()
    return _IDS.sub("", bare).strip() or bare, *_ids(bare)


def _class(kind: str) -> int | None:
    shape = _CLASS.search(kind)
    return int(shape[1] or shape[2], 16) if shape else _KINDS.get(kind.lower())


def _ids(bare: str) -> tuple[int | None, int | None]:
    found = _IDS.findall(bare)
    alone = _ONLY_IDS.match(bare)
    if found:
        return int(found[-1][0], 16), int(found[-1][1], 16)
    if alone:
        return int(alone[1], 16), int(alone[2], 16)
    vendor, words = _NVIDIA
    return (vendor if bare.lower().startswith(words) else None), None
