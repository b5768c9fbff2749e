"""The loaded NVIDIA kernel module."""

from __future__ import annotations

import re
from typing import Literal

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import single

# The text after the version must be there too: a version that was cut short is another version.
_SHAPE = re.compile(
    r"(?P<kind>Open )?Kernel Module\b.*?\s(?P<version>[0-9]{2,4}(\.[0-9]{1,3}){1,2})(?:-\S+)?\s"
)


@dataclass(frozen=True)
class NvidiaVersion:
    version: str | None = None
    flavor: Literal["proprietary", "open"] | None = None
    line: str = ""
    unparsed: tuple[str, ...] = ()

    @property
    def is_loaded(self) -> bool:
        return self.version is not None or bool(self.unparsed)


def parse(text: str) -> NvidiaVersion:
    output = [line for line in single(text) if line.strip()]
    for line in output:
        shape = _SHAPE.search(line) if line.startswith("NVRM version:") else None
        if shape:
            return NvidiaVersion(
                version=shape["version"],
                flavor="open" if shape["kind"] else "proprietary",
                line=line.strip(),
            )
    return NvidiaVersion(unparsed=tuple(output))


_SNIPPET = """
[ -e /proc/version ] || return
[ -e /proc/driver/nvidia/version ] || return 0
copy </proc/driver/nvidia/version
"""

SECTION = Section(
    name="nvidia-version", snippet=_SNIPPET, parse=parse, lane="files", technical=EVERY_WORD
)
