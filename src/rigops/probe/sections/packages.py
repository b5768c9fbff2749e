"""Packages around GPUs and kernels, as dpkg, pacman or rpm know them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.probe import package_names
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import lines

Manager = Literal["dpkg", "pacman", "rpm"]

_STATUS = re.compile(r"[uihrp][ncHUFWti][ R]?")
_PATTERNS = (
    "*nvidia*", "*cuda*", "*nccl*", "*nvtx*", "*cublas*", "*cudnn*", "*nouveau*", "libnvcuvid1",
    "libnvoptix1", "linux-image*", "linux-headers*", "linux-modules*", "linux-generic*", "dkms",
    "pve-*", "proxmox-*kernel*", "unattended-upgrades", "docker.io", "docker-ce", "moby-engine",
    "podman", "runc",
)  # fmt: skip
_ELSEWHERE = "nvidia|cuda|nccl|cudnn|nouveau|dkms|^linux|^kernel|^(docker|podman|runc)[ \t]"

_DPKG_TABLE = re.compile(
    r"(?P<status>[uihrp][ncHUFWti][ R]?) +(?P<name>[a-z0-9][a-z0-9+.:-]*)(?P<after_name> +)"
    r"(?P<version>\S+)(?P<after_version> +)(?P<architecture>[a-z0-9-]+)(?: (?P<about>.*))?"
)
_DPKG_RULES = re.compile(r"Desired=|\| Status=|\|/ Err\?=|\|\|/ Name|\+\+\+-")
_PACMAN = re.compile(r"(?P<name>[a-z0-9@_+][a-z0-9@._+-]*) (?P<version>[^\s-]\S*-[0-9.]+)")
_RPM = re.compile(r"(?P<name>\S+)\t(?P<version>\S+)\t(?P<architecture>\S+)")
_PROMPT = re.compile(
    r"(?:[^\s@]{1,80}@[^\s:~]{1,255}[:~]\S{0,512})?[$#] |dpkg-query: no packages found matching"
)
_MANAGERS: Final[dict[str, Manager]] = {
    "dpkg-query": "dpkg", "dpkg": "dpkg", "pacman": "pacman", "rpm": "rpm"
}  # fmt: skip
_NARROW: Final = 80  # a terminal makes dpkg cut names without a trace, and this one always does
_RULE: Final = "+++-"
_INSTALLED: Final = "ii"


@dataclass(frozen=True)
class Package:
    name: str
    version: str  # empty where dpkg only remembers the name
    architecture: str
    status: str  # as dpkg abbreviates it: "ii", "hi", "rc", "un", …
    source: str | None = None  # the source package, where dpkg reports it
    line: str = field(default="", compare=False)

    @property
    def is_installed(self) -> bool:
        return self.status[1:2] == "i"

    @property
    def is_there(self) -> bool:
        """Also where it was unpacked and no more."""
        return self.status[1:2] not in {"", "n", "c"}

    @property
    def is_held(self) -> bool:
        return self.status[:1] == "h"


@dataclass(frozen=True)
class Packages:
    packages: tuple[Package, ...] = ()
    unparsed: tuple[str, ...] = ()
    managers: frozenset[Manager] = frozenset()  # that were asked, or whose format this is

    def installed(self, name: str) -> Package | None:
        return next((one for one in self.packages if one.name == name and one.is_installed), None)

    @property
    def unfinished_driver(self) -> tuple[Package, ...]:
        """Those of its packages that whose installation or removal was interrupted."""
        return tuple(
            one
            for one in self.packages
            if one.is_there and not one.is_installed and package_names.is_driver(one.name)
        )

    @property
    def driver(self) -> tuple[Package, ...]:
        """The installed packages of the NVIDIA driver: no toolkits and no container runtime."""
        return tuple(
            one for one in self.packages if one.is_installed and package_names.is_driver(one.name)
        )


def parse(text: str) -> Packages:
    packages: list[Package] = []
    unparsed: list[str] = []
    managers: set[Manager] = set()
    named: Manager | None = None
    every = lines(text)
    is_cut = _is_cut(every)
    for line in every:
        if line.startswith("== "):
            named = _MANAGERS.get(line.split()[1] if len(line.split()) > 1 else "")
            managers |= {named} if named else set()
            continue
        found = _read(line, named, is_cut=is_cut)
        if found:
            manager, package = found
            managers.add(manager)
            packages.append(package)
        elif line.strip() and not _DPKG_RULES.match(line) and not _PROMPT.match(line):
            unparsed.append(line)
    return Packages(tuple(packages), tuple(unparsed), frozenset(managers))


def _is_cut(every: Iterable[str]) -> bool:
    """By a terminal's width: then the descriptions end where the rule above them does.

    Without one the rule is as long as the longest row: of two, the descriptions are the same.
    """
    rule = next((line.rstrip() for line in every if line.startswith(_RULE)), "")
    rows = [shape for line in every if (shape := _DPKG_TABLE.fullmatch(line.rstrip()))]
    if max([len(rule), *(len(row[0]) for row in rows)]) <= _NARROW:
        return True
    return len({row["about"] for row in rows if len(row[0]) == len(rule)}) > 1


def _read(line: str, named: Manager | None, *, is_cut: bool) -> tuple[Manager, Package] | None:
    if named in {None, "dpkg"} and (package := _dpkg(line) or _table(line, is_cut=is_cut)):
        return "dpkg", package
    if named in {None, "pacman"} and (shape := _PACMAN.fullmatch(line.strip())):
        return "pacman", Package(shape["name"], shape["version"], "", _INSTALLED, line=line)
    if named == "rpm" and (shape := _RPM.fullmatch(line)):
        name, version, architecture = shape.group("name", "version", "architecture")
        return "rpm", Package(name, version, architecture, _INSTALLED, line=line)
    return None


def _dpkg(line: str) -> Package | None:
    fields = line.split("\t")
    if len(fields) not in {4, 5} or not fields[0] or not _STATUS.fullmatch(fields[3]):
        return None
    name, version, architecture, status, *source = fields
    return Package(
        name=name.partition(":")[0],
        version=version,
        architecture=architecture,
        status=status.strip(),
        source=(source[0].strip() or None) if source else None,
        line=line,
    )


def _table(line: str, *, is_cut: bool) -> Package | None:
    """A row of `dpkg -l`. A column with no room to spare may have lost its end."""
    shape = _DPKG_TABLE.fullmatch(line)
    if shape is None:
        return None
    if is_cut and " " in {shape["after_name"], shape["after_version"]}:
        return None
    version = "" if shape["version"] == "<none>" else shape["version"]
    name = shape["name"].partition(":")[0]
    return Package(name, version, shape["architecture"], shape["status"].strip(), line=line)


_FORMAT = "${Package}\\t${Version}\\t${Architecture}\\t${db:Status-Abbrev}\\t${source:Package}\\n"
_SNIPPET = rf"""
code=0
if [ -s /var/lib/dpkg/status ] && command -v dpkg-query >/dev/null; then
    block "dpkg-query -W"
    dpkg-query -W -f '{_FORMAT}' \
        {" ".join(f"'{pattern}'" for pattern in _PATTERNS)} 2>/dev/null
    [ $? -le 1 ] || code=1  # 1: no package of one of these names
fi
if [ -d /var/lib/pacman/local ] && command -v pacman >/dev/null; then
    block "pacman -Q"
    pacman -Q | grep -E '{_ELSEWHERE}'
    [ $? -le 1 ] || code=1
fi
if [ ! -s /var/lib/dpkg/status ] && command -v rpm >/dev/null; then
    block "rpm -qa --qf"
    rpm -qa --qf '%{{NAME}}\t%{{VERSION}}-%{{RELEASE}}\t%{{ARCH}}\n' | grep -E '{_ELSEWHERE}'
    [ $? -le 1 ] || code=1
fi
return $code
"""

SECTION = Section(
    name="packages",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=15,
    lane="files",
    technical=EVERY_WORD,
)
