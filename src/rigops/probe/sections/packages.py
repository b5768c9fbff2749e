"""Packages around GPUs and kernels, as dpkg knows them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rigops.probe.section import Section
from rigops.probe.text import single

_STATUS = re.compile(r"[uihrp][ncHUFWti][ R]?")
_PATTERNS = (
    "*nvidia*", "*cuda*", "*nccl*", "*nvtx*", "*cublas*", "*cudnn*", "*nouveau*",
    "linux-image*", "linux-headers*", "linux-modules*", "linux-generic*", "dkms", "pve-*",
)  # fmt: skip


@dataclass(frozen=True)
class Package:
    name: str
    version: str  # empty where dpkg only remembers the name
    architecture: str
    status: str  # as dpkg abbreviates it: "ii", "hi", "rc", "un", …

    @property
    def is_installed(self) -> bool:
        return self.status[1:2] == "i"


@dataclass(frozen=True)
class Packages:
    packages: tuple[Package, ...] = ()
    unread: tuple[str, ...] = ()

    def installed(self, name: str) -> Package | None:
        return next((one for one in self.packages if one.name == name and one.is_installed), None)


def parse(text: str) -> Packages:
    packages: list[Package] = []
    unread: list[str] = []
    for line in single(text):
        fields = line.split("\t")
        if len(fields) == 4 and fields[0] and _STATUS.fullmatch(fields[3]):  # noqa: PLR2004 - as the format says
            name, version, architecture, status = fields
            packages.append(Package(name.partition(":")[0], version, architecture, status.strip()))
        elif line.strip() and not line.startswith("dpkg-query: no packages found matching"):
            unread.append(line)
    return Packages(tuple(packages), tuple(unread))


_SNIPPET = rf"""
command -v dpkg-query >/dev/null || exit
echo "== dpkg-query -W"
dpkg-query -W -f "\${{Package}}\t\${{Version}}\t\${{Architecture}}\t\${{db:Status-Abbrev}}\n" \
    {" ".join(f'"{pattern}"' for pattern in _PATTERNS)} 2>/dev/null
code=$?
[ "$code" -le 1 ]  # 1: no package of one of these names
"""

SECTION = Section(name="packages", snippet=_SNIPPET, parse=parse, timeout_s=15)
