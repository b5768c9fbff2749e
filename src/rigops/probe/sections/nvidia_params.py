"""The parameters that the loaded NVIDIA module runs with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import matches, single

_SHAPE = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9_]{0,79}):(?: (?P<value>.*))?")
_QUOTED = re.compile(r'"(.*)"')


@dataclass(frozen=True)
class NvidiaParams:
    """By name without NVreg_. `lines`: as the driver prints them."""

    values: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, str] = field(default_factory=dict)
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> NvidiaParams:
    found, unparsed = matches(_SHAPE, map(str.strip, single(text)))
    values = {one["name"]: _QUOTED.sub(r"\1", (one["value"] or "").strip()) for one in found}
    return NvidiaParams(values, {one["name"]: one.string for one in found}, tuple(unparsed))


_SNIPPET = """
[ -e /proc/version ] || return
[ -e /proc/driver/nvidia/params ] || return 0
copy </proc/driver/nvidia/params
"""

SECTION = Section(
    name="nvidia-params", snippet=_SNIPPET, parse=parse, lane="files", technical=EVERY_WORD
)
