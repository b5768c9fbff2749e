"""Which versions apt knows of a package, from where, and which one it would install."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from rigops.probe.text import lines

Origin = Literal["distribution", "nvidia", "ppa", "local"]

_NAME = re.compile(r"(?P<name>[a-z0-9][a-z0-9+.-]*)(?::\w+)?:")
_CHOICE = re.compile(r"  (?P<kind>Installed|Candidate): (?P<version>\S+)")
_VERSION = re.compile(r" (?:   |\*\*\*) (?P<version>\S+) (?P<priority>-?[0-9]{1,6})(?: .*)?")
_SOURCE = re.compile(r"       +-?[0-9]{1,6} (?P<place>\S.*)")
_STATUS = "/var/lib/dpkg/status"


@dataclass(frozen=True)
class Offer:
    """One version and where it can be had; nowhere if only dpkg still knows it."""

    version: str
    lines: tuple[str, ...]
    origins: frozenset[Origin]


@dataclass(frozen=True)
class Policy:
    package: str
    installed: str | None
    candidate: str | None
    offers: tuple[Offer, ...]

    def offer(self, version: str | None) -> Offer | None:
        return next((one for one in self.offers if one.version == version), None)


@dataclass
class _Open:
    package: str
    chosen: dict[str, str] = field(default_factory=dict)
    offers: list[tuple[str, list[str]]] = field(default_factory=list)

    def closed(self) -> Policy:
        return Policy(
            package=self.package,
            installed=_known(self.chosen.get("Installed")),
            candidate=_known(self.chosen.get("Candidate")),
            offers=tuple(
                Offer(version, tuple(said), frozenset(filter(None, map(_origin, said[1:]))))
                for version, said in self.offers
            ),
        )


def parse(text: str) -> tuple[tuple[Policy, ...], tuple[str, ...]]:
    """The packages, and the lines that could not be read."""
    found: list[_Open] = []
    unparsed: list[str] = []
    for line in lines(text):
        if name := _NAME.fullmatch(line):
            found.append(_Open(name["name"]))
        elif not found:
            unparsed += [line] if line.strip() else []
        elif choice := _CHOICE.fullmatch(line):
            found[-1].chosen[choice["kind"]] = choice["version"]
        elif version := _VERSION.fullmatch(line):
            found[-1].offers.append((version["version"], [line]))
        elif found[-1].offers and _SOURCE.fullmatch(line):
            found[-1].offers[-1][1].append(line)
        elif line.strip() and not line.startswith(("  Version table:", "  Package pin:")):
            unparsed.append(line)
    return tuple(one.closed() for one in found), tuple(unparsed)


def _known(version: str | None) -> str | None:
    return None if version == "(none)" else version


def _origin(line: str) -> Origin | None:
    if _STATUS in line:
        return None
    place = line.lower()
    if "/compute/cuda/" in place or "nvidia.com" in place or "nvidia.github.io" in place:
        return "nvidia"
    if "/graphics-drivers/" in place or "/ppa/" in place:
        return "ppa"
    return "local" if " file:" in place or " copy:" in place else "distribution"
