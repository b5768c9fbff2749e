"""The list of `nvidia-smi -L`: names and UUIDs, no addresses, and no end."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rigops.probe.smi.values import Leaf, SmiOutput

_CARD = re.compile(
    r"GPU [0-9]{1,3}: (?P<product_name>[^(]{1,80}) \(UUID: (?P<gpu_uuid>GPU-[^\s()]{0,80})\)?"
)
_PART_OF_CARD = re.compile(r"\s{1,9}MIG ")


def is_list(lines: Sequence[str]) -> bool:
    return any(_CARD.fullmatch(line.strip()) for line in lines)


def read(lines: Sequence[str]) -> SmiOutput:
    output = SmiOutput()
    for line in lines:
        shape = _CARD.fullmatch(line.strip())
        if shape:
            card = output.begin_card(line, "")
            card.leaves |= {name: Leaf(value, line) for name, value in shape.groupdict().items()}
        elif not _PART_OF_CARD.match(line):
            output.outside.append(line)
    return output
