"""The parameters that the loaded NVIDIA module runs with."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import single

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHAPE = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9_]{0,79}):(?: (?P<value>.*))?")


@dataclass(frozen=True)
class NvidiaParams:
    """By name without NVreg_. `lines`: as the driver prints them."""

    values: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, str] = field(default_factory=dict)
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> NvidiaParams:
    values: dict[str, str] = {}
    said: dict[str, str] = {}
    unparsed: list[str] = []
    for line in map(str.strip, single(text)):
        if shape := _SHAPE.fullmatch(line):
            values[shape["name"]] = _unquoted((shape["value"] or "").strip())
            said[shape["name"]] = line
        elif line:
            unparsed.append(line)
    return NvidiaParams(values, said, tuple(unparsed))


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value


_SNIPPET = """
[ -e /proc/version ] || exit
[ -e /proc/driver/nvidia/params ] || exit 0
cat /proc/driver/nvidia/params
"""

SECTION = Section(
    name="nvidia-params", snippet=_SNIPPET, parse=parse, calm=True, technical=EVERY_WORD
)
