"""The text of `nvidia-smi -q`: names that repeat, distinguished by their indentation.

After a grep or a cut, a piece of it has cards without their heads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rigops.probe.smi.values import DEEPEST, CardOutput, Leaf, SmiOutput

_CARD = re.compile(r"GPU (?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*")
_TITLE = re.compile(r"=+\s*NVSMI LOG\s*=+\s*")
_NO_LETTER = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME = 64
_PROCESSES = "processes"
_PROCESS = "process_id"
_LAST_OF_PROCESS = "used_gpu_memory"
_COUNT = "attached_gpus"
_FIRST = "driver_version"
# Of a piece: blocks and fields that begin one, and the blocks of what a grep shows without them.
PIECE = (
    r"\s*(?:(?:(?:FB|BAR1) Memory Usage|Remapped Rows|Retired Pages|E(?:CC|cc) (?:Errors|Mode)|"
    r"(?:GPU |Module )?Power Readings|Clocks (?:Throttle|Event) Reasons|GPU Link Info|MIG Mode|"
    r"(?:Default )?Applications Clocks|Max (?:Customer Boost )?Clocks|Fabric|Temperature|Clocks|"
    r"Volatile|Aggregate|vGPU Software Licensed Product)\s*$|"
    r"(?:Product (?:Name|Brand|Architecture)|GPU UUID|VBIOS Version|Performance State|"
    r"Persistence Mode|Fan Speed|Remapping Failure Occurred|Pending Page Blacklist|"
    r"(?:SRAM|DRAM) (?:Unc|C)orrectable(?: \w{1,12})?|(?:Single|Double) Bit ECC|"
    r"[HS]W (?:Power Cap|(?:Thermal |Power Brake )?Slowdown)|Sync Boost|"
    r"(?:(?:Instantaneous|Average) )?Power Draw|"
    r"(?:(?:Current|Requested|Default|Enforced|Min|Max) )?Power Limit|"
    r"GPU (?:Current|Slowdown|Shutdown|Max Operating|Target) Temp|Memory Current Temp) +: )"
)
_PIECE = re.compile(PIECE)
_BLOCKS = {
    **dict.fromkeys(("volatile", "aggregate"), "ecc_errors"),
    "remapping_failure_occurred": "remapped_rows",
    **dict.fromkeys(
        ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_power_cap",
         "sw_thermal_slowdown", "sync_boost"), "clocks_event_reasons",
    ),
    **dict.fromkeys(
        ("power_draw", "average_power_draw", "instantaneous_power_draw", "power_limit",
         "current_power_limit", "requested_power_limit", "default_power_limit",
         "enforced_power_limit", "min_power_limit", "max_power_limit"), "power_readings",
    ),
    **dict.fromkeys(
        ("gpu_current_temp", "gpu_slowdown_temp", "memory_current_temp"), "temperature"
    ),
}  # fmt: skip
# Ends of a text without an end of line that cannot begin something longer.
_COMPLETE = frozenset({"n/a", "none", "enabled", "disabled", "0"})


def read(lines: Sequence[str], *, ends_a_line: bool) -> SmiOutput:
    return _Reading(lines, ends_a_line=ends_a_line).output


class _Reading:
    """One pass over the lines. Values too deep or too many are dropped."""

    def __init__(self, lines: Sequence[str], *, ends_a_line: bool) -> None:
        self.output = SmiOutput()
        self._card: CardOutput | None = None
        self._stack: list[tuple[int, str]] = []
        self._margin = 0
        last = "" if ends_a_line or not lines else lines[-1]
        is_incomplete = (
            ":" in last[: _LONGEST_NAME + 1]
            and last.rpartition(":")[2].strip().lower() not in _COMPLETE
        )
        if is_incomplete:
            lines = lines[:-1]
            self.output.outside.append(last)
        for line in lines:
            self._take(line.expandtabs())
        self.output.is_complete = not is_incomplete and self._has_its_end(lines)

    def _take(self, line: str) -> None:
        plain = line.strip()
        indent = len(line) - len(line.lstrip())
        card = _CARD.fullmatch(plain)
        if not plain or _TITLE.fullmatch(plain):
            return
        if card and (self._card is None or indent <= self._margin):
            self._card, self._stack = self.output.begin_card(plain, card["address"]), []
            self._margin = indent
        elif self._card is None and _PIECE.match(line):
            self._card, self._margin = self.output.begin_piece(plain), -1
            self._take_field(self._card, plain, indent)
        elif self._card is None:
            name, colon, value = plain.partition(" : ")
            if colon and len(name) <= _LONGEST_NAME and not name.startswith("Unable to "):
                self.output.head.setdefault(_key(name), Leaf(value.strip(), line))
            else:
                self.output.outside.append(line)
        elif indent > self._margin:
            self._take_field(self._card, plain, indent)
        else:
            self.output.outside.append(line)

    def _take_field(self, card: CardOutput, plain: str, indent: int) -> None:
        name, colon, value = plain.partition(":")
        if len(name) > _LONGEST_NAME or name.startswith("["):
            self.output.outside.append(plain)
            return
        is_flat = card.is_piece and not colon and indent == 0  # a web page took the indentation
        indent = -1 if is_flat else indent
        while self._stack and self._stack[-1][0] >= indent:
            self._stack.pop()
        if len(self._stack) == DEEPEST:
            return
        self._stack.append((indent, _key(name)))
        if not colon:
            return
        leaf = Leaf(value.strip(), plain)
        key, block = self._stack[-1][1], _BLOCKS.get(self._stack[0][1])
        if self._stack[0][1] != _PROCESSES or len(self._stack) == 1:
            path = "/".join([*([block] if block else []), *(name for _, name in self._stack)])
            if card.is_piece and path in card.leaves:
                self._card = card = self.output.begin_piece(card.line)
            card.leaves.setdefault(path, leaf)
        elif key == _PROCESS:
            card.processes.append({key: leaf})
        elif card.processes:
            card.processes[-1].setdefault(key, leaf)

    def _has_its_end(self, lines: Sequence[str]) -> bool:
        """The last block of each card is there, and no process of the last card may be missing."""
        cards, attached = self.output.cards, self.output.head.get(_COUNT)
        is_all = attached is not None and attached.value == str(len(cards))
        if not (cards and is_all and _FIRST in self.output.head and self._stack):
            return False
        block, last = self._stack[0][1], self._stack[-1][1]
        is_in_processes = block == _PROCESSES and len(self._stack) > 1
        if is_in_processes and (last != _LAST_OF_PROCESS or lines[-1].strip()):
            return False
        return all(_PROCESSES in card.leaves or card.processes for card in cards)


def _key(name: str) -> str:
    return _NO_LETTER.sub("_", name.lower()).strip("_")
