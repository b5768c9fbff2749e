"""The list of `nvidia-smi -L`: names and UUIDs, no addresses, and no end.

A card that it names twice is one.
PyTorch's collect_env quotes it without UUIDs, and names the driver.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rigops.probe.smi.values import Leaf, SmiOutput

_CARD = re.compile(
    r"GPU [0-9]{1,3}: (?P<product_name>[^(]{1,80}) \(UUID: (?P<gpu_uuid>GPU-[^\s()]{0,80})\)?"
)
_HEAD_OF_QUOTE = "GPU models and configuration"
_QUOTED = re.compile(
    rf"(?:{_HEAD_OF_QUOTE} {{0,20}}: {{0,4}})?GPU [0-9]{{1,3}}: (?P<product_name>[^(:]{{1,80}})"
)
_DRIVER = re.compile(r"Nvidia driver version {0,20}: {1,4}(?P<version>[0-9][0-9.]{2,20})")
_QUOTE = re.compile(rf"Collecting environment|PyTorch version|{_HEAD_OF_QUOTE}|{_DRIVER.pattern}")
_UUID = re.compile(r"GPU-[0-9a-f-]{36}")  # masked ones may be of several cards
_PART_OF_CARD = re.compile(r"\s{1,9}MIG ")


def is_list(lines: Sequence[str]) -> bool:
    return any(_CARD.fullmatch(line.strip()) for line in lines) or _is_quote(lines)


def _is_quote(lines: Sequence[str]) -> bool:
    return any(line.startswith(_HEAD_OF_QUOTE) or _DRIVER.match(line) for line in lines)


def read(lines: Sequence[str]) -> SmiOutput:
    output = SmiOutput()
    is_quote, is_inside = _is_quote(lines), False
    uuids: set[str] = set()
    for line in lines:
        is_inside = is_inside or (is_quote and _QUOTE.match(line) is not None)
        shape = (_QUOTED if is_quote else _CARD).fullmatch(line.strip())
        driver = _DRIVER.match(line)
        uuid = shape.groupdict().get("gpu_uuid") if shape else None
        if shape and uuid not in uuids:
            uuids |= {uuid} if uuid and _UUID.fullmatch(uuid) else set()
            card = output.begin_card(line, "")
            card.leaves |= {name: Leaf(value, line) for name, value in shape.groupdict().items()}
        elif driver:
            output.head["driver_version"] = Leaf(driver["version"], line.strip())
        elif not shape and not is_inside and not _PART_OF_CARD.match(line):
            output.outside.append(line)
    return output
