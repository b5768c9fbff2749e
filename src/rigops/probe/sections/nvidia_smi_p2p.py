"""Between which cards the driver grants peer access: reads, writes, NVLink and atomics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from rigops.dataclass import dataclass
from rigops.probe.smi import smi_section
from rigops.probe.text import lines

_GPU = re.compile(r"GPU([0-9]{1,3})")
_GRANTED = "OK"
_REFUSED = frozenset({"CNS", "GNS", "TNS", "NS", "DR"})
_CELLS = _REFUSED | {"X", "U", _GRANTED}  # U: unknown
_MOST = 256  # no machine has as many cards; a longer line is no header


@dataclass(frozen=True)
class PeerMatrix:
    """Cells by (row, column) in nvidia-smi's numbering, which is the order of bus addresses."""

    gpus: tuple[int, ...] = ()
    cells: Mapping[tuple[int, int], str] = field(default_factory=dict)
    rows: tuple[str, ...] = ()  # as they were printed
    unparsed: tuple[str, ...] = ()

    @property
    def granted(self) -> tuple[tuple[int, int], ...]:
        return tuple(pair for pair, cell in self.cells.items() if cell == _GRANTED)

    @property
    def refuses_all(self) -> bool:
        """Every pair is there, and every one is refused. Less is no answer."""
        pairs = {(one, other) for one in self.gpus for other in self.gpus if one != other}
        refused = all(cell in _REFUSED for cell in self.cells.values())
        return bool(pairs) and pairs == set(self.cells) and refused and not self.unparsed


def parse(text: str) -> PeerMatrix:
    columns: tuple[int, ...] = ()
    cells: dict[tuple[int, int], str] = {}
    rows: list[str] = []
    unparsed: list[str] = []
    for line in lines(text):
        words = line.split()
        if not words:
            if rows:
                break  # the legend follows, with the words of the table
        elif not columns and len(words) <= _MOST and all(map(_GPU.fullmatch, words)):
            columns = tuple(int(word[3:]) for word in words)
        elif columns and _GPU.fullmatch(words[0]):
            row, values = int(words[0][3:]), words[1:]
            if row in columns and len(values) == len(columns) and _CELLS.issuperset(values):
                rows.append(line)
                pairs = zip(columns, values, strict=True)
                cells.update({(row, column): cell for column, cell in pairs if column != row})
            else:
                unparsed.append(line)
        elif not line.startswith(("== ", "$ ", "#")) or columns:
            unparsed.append(line)
    return PeerMatrix(columns, cells, tuple(rows), tuple(unparsed))


READ = smi_section("nvidia-smi-p2p-read", "topo -p2p r", parse, lane="peers")
WRITE = smi_section("nvidia-smi-p2p-write", "topo -p2p w", parse, lane="peers")
NVLINK = smi_section("nvidia-smi-p2p-nvlink", "topo -p2p n", parse, lane="cards")
ATOMICS = smi_section("nvidia-smi-p2p-atomics", "topo -p2p a", parse, lane="cards")
