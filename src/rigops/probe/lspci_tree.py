"""`lspci -t`, with names or without: the bridges above each function."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rigops.probe.lspci_text import identity

_LINE = re.compile(r"[ |]*(?:[+\\]-|-(?:\+-)?\[)")
_STEP = re.compile(
    r"-*(?:(?P<fork>[+\\])(?=-)"
    r"|\[(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2})(?:-[0-9a-f]{2})?\](?=-)"
    r"|(?P<slot>[01][0-9a-f]\.[0-7])(?=-\[|\s\s|$))",
    re.IGNORECASE,
)
_LONGEST = 1000
_REST = re.compile(r"-*|\s+(?P<name>\S.*)")


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


def split(lines: list[str]) -> tuple[list[Branch], list[str], list[str]]:
    """The functions, the lines of no tree (and a blank one for each of a tree), what is unparsed.

    A line's place says what is above it. After a line that does not fit, no place is trusted.
    """
    found: list[Branch] = []
    rest: list[str] = []
    unparsed: list[str] = []
    forks: dict[int, _Bus] = {}
    for line in lines:
        is_tree = _LINE.match(line) is not None
        rest.append("" if is_tree else line)
        if is_tree:
            reader = _Reader(line.rstrip(), forks)
            fits = reader.read()
            found += reader.found if fits else []
            unparsed += [] if fits else [line]
            forks = reader.forks if fits else {}
        elif line.strip():
            forks = {}
    return found, rest, unparsed


class _Reader:
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
        """Whether the line makes sense where it stands."""
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
        shape = _REST.fullmatch(rest)
        if shape is None or not (may_name or shape["name"] is None):
            return False
        if shape["name"]:
            name, vendor, device = identity(shape["name"])
            self.found[-1] = replace(self.found[-1], name=name, vendor=vendor, device=device)
        return True
