"""lspci's listing into one block for each function, `lspci -t` into the bus below each bridge."""

from __future__ import annotations

import re
from dataclasses import field

from rigops.dataclass import dataclass
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
# Where only names are there: the makers that matter, QEMU, VMware, Xen, Hyper-V, VirtualBox.
_VENDORS = {
    "nvidia corporation": 0x10DE,
    "red hat, inc.": 0x1B36,
    "vmware": 0x15AD,
    "xensource": 0x5853,
    "microsoft corporation": 0x1414,
    "innotek": 0x80EE,
}

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
    """Lines after a head belong to it; others, or those not of lspci, are unparsed."""
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
    bare = _NOTES.split(text, maxsplit=1)[0].strip()
    vendor, device = _ids(bare)
    revision, number = _REVISION.search(text), _CLASS.search(kind)
    return Head(
        address=where,
        name=_IDS.sub("", bare).strip() or bare,
        line=line.strip(),
        vendor=vendor,
        device=device,
        pci_class=int(number[1] or number[2], 16) if number else _KINDS.get(kind.lower()),
        revision=revision[1].lower() if revision else None,
    )


def _ids(bare: str) -> tuple[int | None, int | None]:
    found = _IDS.findall(bare)
    alone = _ONLY_IDS.match(bare)
    if found:
        return int(found[-1][0], 16), int(found[-1][1], 16)
    if alone:
        return int(alone[1], 16), int(alone[2], 16)
    plain = bare.lower()
    return next(
        (number for words, number in _VENDORS.items() if plain.startswith(words)), None
    ), None


def split_tree(lines: list[str]) -> tuple[dict[str, int], list[str], list[str]]:
    """The bus below each bridge, the lines of no tree, and what is unparsed.

    Of a tree's lines, blank ones are left among the others. A line's place says what is above it.
    After a line that does not fit, no place is trusted.
    """
    buses: dict[str, int] = {}
    rest: list[str] = []
    unparsed: list[str] = []
    forks: dict[int, str | None] = {}
    for line in lines:
        is_tree = _TREE_LINE.match(line) is not None
        rest.append("" if is_tree else line)
        if is_tree:
            reader = _TreeLine(line.rstrip(), forks)
            fits = reader.read()
            buses |= reader.buses if fits else {}
            unparsed += [] if fits else [line]
            forks = reader.forks if fits else {}
        elif line.strip():
            forks = {}
    return buses, rest, unparsed


class _TreeLine:
    """Of one line. `forks` are the columns in which more may follow, and the bus that is there."""

    def __init__(self, line: str, forks: dict[int, str | None]) -> None:
        self.buses: dict[str, int] = {}
        self._line = line
        self._start = len(line) - len(line.lstrip(" |"))
        self._begins = line[self._start] == "-"
        above = {} if self._begins else forks
        self.forks = {column: bus for column, bus in above.items() if column <= self._start}
        self._bus = self.forks.get(self._start)  # 0000:3a

    def read(self) -> bool:
        """Whether the line makes sense in its place."""
        if len(self._line) > _LONGEST:
            return False
        bars = {column for column in range(self._start) if self._line[column] == "|"}
        if bars != self.forks.keys() - {self._start}:
            return False
        if not self._begins and self._start not in self.forks:
            return False
        at, above = self._start, None  # the address of what leads on
        while step := _STEP.match(self._line, at):
            at = step.end()
            if step["fork"] == "+":
                self.forks[step.start("fork")] = self._bus
            elif step["fork"]:  # nothing more follows there
                self.forks.pop(step.start("fork"), None)
            elif step["bus"]:
                domain = step["domain"]
                number = step["bus"].lower()
                if above:
                    self.buses[above] = int(number, 16)
                    domain = domain or above.partition(":")[0]
                self._bus = f"{int(domain or '0', 16):04x}:{number}"
            elif self._bus is None:
                return False
            above = f"{self._bus}:{step['slot'].lower()}" if step["slot"] else None
        end = _NAME_AT_END.fullmatch(self._line, at)
        return end is not None and (above is not None or end["name"] is None)
