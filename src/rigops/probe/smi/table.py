"""The table of `nvidia-smi` without options: two or three rows a card, then the processes.

A name that does not fit ends in dots.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rigops.numbers import whole
from rigops.probe.smi.values import CardOutput, Leaf, SmiOutput

_BANNER = re.compile(r"\|\s{0,4}NVIDIA-SMI [0-9]")
_VERSIONS = (
    ("driver_version", re.compile(r"\bDriver Version: {0,4}(?P<value>\S{1,40})")),
    ("cuda_version", re.compile(r"\bCUDA Version: {0,4}(?P<value>\S{1,40})")),
    ("kmd_version", re.compile(r"\bKMD Version: {0,4}(?P<value>\S{1,40})")),
    ("cuda_umd_version", re.compile(r"\bCUDA UMD Version: {0,4}(?P<value>\S{1,40})")),
)
_DATE = re.compile(
    r"[A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}[0-9]{1,2} [0-9]{2}:[0-9]{2}:[0-9]{2} [0-9]{4}"
)
_ADDRESS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
_CELLS = 3
_PROCESSES = "processes:"
_KINDS = frozenset({"C", "G", "C+G", "M+C", "M+C+G"})
_OVER = "/"  # between what is used and what there is
_OF_WINDOWS = frozenset({"WDDM", "TCC", "MCDM"})
_IN_ECC = {"Off": "Disabled", "On": "Enabled"}


def is_table(lines: Sequence[str]) -> bool:
    return any(_BANNER.match(line.strip()) or _first_row(line) for line in lines)


def read(lines: Sequence[str]) -> SmiOutput:
    return _Reading(lines).output


def _cells(line: str) -> list[str]:
    """The text between the bars; nothing where it is no row."""
    plain = line.strip()
    is_whole = plain.startswith("|") and plain.endswith("|")
    is_row = is_whole and not plain.startswith(("|-", "|="))
    return plain.strip("|").split("|") if is_row else []


def _first_row(line: str) -> list[str]:
    cells = _cells(line)
    if len(cells) != _CELLS or not cells[0].split(None, 1)[:1]:
        return []
    address = cells[1].split()[:1]
    is_first = whole(cells[0].split()[0]) is not None and address and _ADDRESS.fullmatch(address[0])
    return cells if is_first else []


class _Reading:
    """One pass over the lines. Of several tables, as `watch` prints them, the last counts."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._outside: list[str] = []
        self._in_processes = False
        self._begin()
        for line in lines:
            plain = line.strip()
            if plain.startswith(("+", "|-", "|=")):
                if self._in_processes and plain.startswith("+") and plain.endswith("+"):
                    self._end()
            elif _BANNER.match(plain):
                self._begin()
                for name, shape in _VERSIONS:
                    found = shape.search(line)
                    if found:
                        self.output.head[name] = Leaf(found["value"], line.strip())
            elif _PROCESSES in plain.lower():
                self._in_processes = True
            elif self._in_processes:
                self._take_process(line)
            else:
                self._take(line)

    def _begin(self) -> None:
        self.output = SmiOutput(outside=self._outside)  # errors count, whatever is printed later
        self._by_index: dict[str, CardOutput] = {}
        self._rows = 0  # of the card that is being read
        self._in_processes = False

    def _end(self) -> None:
        """Without its beginning it is not whole."""
        self.output.is_complete = bool(self.output.head)
        for card in self.output.cards:
            if not card.processes:
                card.leaves["processes"] = Leaf("None", card.line)

    def _take(self, line: str) -> None:
        cells = _cells(line)
        card = self.output.cards[-1] if self.output.cards else None
        if _first_row(line):
            self._take_first(cells, line.strip())
        elif card and len(cells) == _CELLS and self._rows == 1:
            self._rows = 2
            _take_second(card, cells, line.strip())
        elif card and len(cells) == _CELLS and not cells[0].strip():
            _take_mig(card, cells[2].strip(), line.strip())
        elif not cells and line.strip() and not _DATE.fullmatch(line.strip()):
            self.output.outside.append(line)

    def _take_first(self, cells: Sequence[str], line: str) -> None:
        index, _, rest = cells[0].strip().partition(" ")
        name, _, persistence = rest.strip().rpartition(" ")
        address, *display = cells[1].split()
        card = self.output.begin_card(line, address)
        self._by_index[index], self._rows = card, 1
        ecc = cells[2].strip()
        found = {
            "product_name": name.strip(),
            "persistence_mode": "N/A" if persistence in _OF_WINDOWS else persistence,
            "display_active": " ".join(display),
            "ecc_errors/volatile/double_bit/total": ecc if ecc not in _IN_ECC else "N/A",
            "ecc_mode/current_ecc": "Enabled"
            if whole(ecc) is not None
            else _IN_ECC.get(ecc, "N/A"),
        }
        card.leaves |= {path: Leaf(value, line) for path, value in found.items()}

    def _take_process(self, line: str) -> None:
        """Behind the number of the card there may be those of a MIG instance."""
        words = " ".join(_cells(line)).split()
        owner = self._by_index.get(words[0]) if words else None
        at = next((place for place, word in enumerate(words) if word in _KINDS), 0)
        if owner is None or at < 2:  # noqa: PLR2004 - the card and the process are before it
            return
        found = {
            "pid": words[at - 1],
            "type": words[at],
            "process_name": " ".join(words[at + 1 : -1]),
            "used_memory": words[-1],
        }
        owner.processes.append({name: Leaf(value, line.strip()) for name, value in found.items()})


def _take_second(card: CardOutput, cells: Sequence[str], line: str) -> None:
    """Fan, temperature, state and watts / limit; memory; load and the mode of computing."""
    words, memory, load = (cell.split() for cell in cells)
    values = dict(
        zip(
            ("fan_speed", "temperature/gpu_temp", "performance_state", "power_readings/power_draw"),
            words,
            strict=False,
        )
    )
    if _OVER in words:
        values["power_readings/current_power_limit"] = " ".join(words[words.index(_OVER) + 1 :])
    if _OVER in memory:
        at = memory.index(_OVER)
        values["fb_memory_usage/used"] = " ".join(memory[:at])
        values["fb_memory_usage/total"] = " ".join(memory[at + 1 :])
    if load:
        values["utilization/gpu_util"] = load[0]
    card.leaves |= {path: Leaf(value, line) for path, value in values.items()}
    card.is_closed = True


def _take_mig(card: CardOutput, mode: str, line: str) -> None:
    """A star says that it changes with the next reset."""
    current = mode.rstrip("*")
    other = {"Enabled": "Disabled", "Disabled": "Enabled"}.get(current, current)
    card.leaves["mig_mode/current_mig"] = Leaf(current, line)
    card.leaves["mig_mode/pending_mig"] = Leaf(current if mode == current else other, line)
