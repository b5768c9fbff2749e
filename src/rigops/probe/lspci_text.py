"""lspci's listing into one block for each function, and `lspci -t` into the bridges above each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

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

_TREE_LINE = re.compile(r"[ |]*(?:[+\\]-|-(?:\+-)?\[)")
_STEP = re.compile(
    r"-*(?:(?P<fork>[+\\])(?=-)"
    r"|\[(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2})(?:-[0-9a-f]{2})?\](?=-)"
    r"|(?P<slot>[01][0-9a-f]\.[0-7])(?=-\[|\s\s|$))",
    re.IGNORECASE,
)
_LONGEST = 1000
_NAME_AT_END = re.compile(r"-*|\s+(?P<name>\S.*)")


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
    revision, number = _REVISION.search(text), _CLASS.search(kind)
    return Head(
        address=where,
        name=name,
        line=line.strip(),
        vendor=vendor,
        device=device,
        pci_class=int(number[1] or number[2], 16) if number else _KINDS.get(kind.lower()),
        revision=revision[1].lower() if revision else None,
    )


def identity(text: str) -> tuple[str, int | None, int | None]:
    """The name without numbers and notes, the vendor, the device."""
    bare = _NOTES.split(text, maxsplit=1)[0].strip()
    return _IDS.sub("", bare).strip() or bare, *_ids(bare)


def _ids(bare: str) -> tuple[int | None, int | None]:
    found = _IDS.findall(bare)
    alone = _ONLY_IDS.match(bare)
    if found:
        return int(found[-1][0], 16), int(found[-1][1], 16)
    if alone:
        return int(alone[1], 16), int(alone[2], 16)
    vendor, words = _NVIDIA
    return (vendor if bare.lower().startswith(words) else None), None


@dataclass(frozen=True)
class Branch:
    """A function in the tree. A bridge has no name there, and without -v nothing has one."""

    address: str
    bridges: tuple[str, ...]  # above it, the root port first
    line: str
    secondary_bus: int | None = None  # of a bridge
    name: str = ""
    vendor: int | None = None
    device: int | None = None


@dataclass(frozen=True)
class _Bus:
    name: str | None = None  # 0000:3a
    bridges: tuple[str, ...] = ()


def split_tree(lines: list[str]) -> tuple[list[Branch], list[str], list[str]]:
    """The functions, the lines of no tree (and a blank one for each of a tree), what is unparsed.

    A line's place says what is above it. After a line that does not fit, no place is trusted.
    """
    found: list[Branch] = []
    rest: list[str] = []
    unparsed: list[str] = []
    forks: dict[int, _Bus] = {}
    for line in lines:
        is_tree = _TREE_LINE.match(line) is not None
        rest.append("" if is_tree else line)
        if is_tree:
            reader = _TreeLine(line.rstrip(), forks)
            fits = reader.read()
            found += reader.found if fits else []
            unparsed += [] if fits else [line]
            forks = reader.forks if fits else {}
        elif line.strip():
            forks = {}
    return found, rest, unparsed


class _TreeLine:
    """Of one line. `forks` are the columns in which more may follow, and the bus that is there."""

    def __init__(self, line: str, forks: dict[int, _Bus]) -> None:
        self.found: list[Branch] = []
        self._line = line
        self._start = len(line) - len(line.lstrip(" |"))
        self._begins = line[self._start] == "-"
        above = {} if self._begins else forks
        self.forks = {column: bus for column, bus in above.items() if column <= self._start}
        self._bus = self.forks.get(self._start, _Bus())

    def read(self) -> bool:
        """Whether the line makes sense in its place."""
        if len(self._line) > _LONGEST:
            return False
        bars = {column for column in range(self._start) if self._line[column] == "|"}
        if bars != self.forks.keys() - {self._start}:
            return False
        if not self._begins and self._start not in self.forks:
            return False
        at, leads_on = self._start, False
        while step := _STEP.match(self._line, at):
            at = step.end()
            if step["fork"]:
                self._fork(step["fork"], step.start("fork"))
            elif step["bus"]:
                self._go_on(step["domain"], step["bus"], below=leads_on)
            elif self._bus.name is None:
                return False
            else:
                address = f"{self._bus.name}:{step['slot'].lower()}"
                self.found.append(Branch(address, self._bus.bridges, self._line.strip()))
            leads_on = step["slot"] is not None
        return self._ends(self._line[at:], may_name=leads_on)

    def _fork(self, sign: str, column: int) -> None:
        if sign == "+":
            self.forks[column] = self._bus
        else:  # nothing more follows there
            self.forks.pop(column, None)

    def _go_on(self, domain: str | None, number: str, *, below: bool) -> None:
        bridges, number = self._bus.bridges, number.lower()
        if below:
            bridge = self.found[-1]
            self.found[-1] = replace(bridge, secondary_bus=int(number, 16))
            bridges = (*bridges, bridge.address)
            domain = domain or bridge.address.partition(":")[0]
        self._bus = _Bus(f"{int(domain or '0', 16):04x}:{number}", bridges)

    def _ends(self, rest: str, *, may_name: bool) -> bool:
        shape = _NAME_AT_END.fullmatch(rest)
        if shape is None or not (may_name or shape["name"] is None):
            return False
        if shape["name"]:
            name, vendor, device = identity(shape["name"])
            self.found[-1] = replace(self.found[-1], name=name, vendor=vendor, device=device)
        return True
