"""The lines around nvidia-smi's answer: in which of many wordings it failed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rigops.probe import address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rigops.probe.smi.report import FailureKind

_KINDS: tuple[tuple[str, FailureKind], ...] = (
    ("unable to determine the device handle", "lost"),
    ("gpu is lost", "lost"),
    ("driver/library version mismatch", "mismatch"),
    ("couldn't communicate with", "no-driver"),
    ("driver not loaded", "no-driver"),
    ("no devices were found", "no-devices"),
    ("couldn't find libnvidia-ml", "no-library"),
    ("couldn't find nvml", "no-library"),
    ("shared library not found", "no-library"),
    ("nvidia-smi: not found", "not-installed"),
    ("nvidia-smi: command not found", "not-installed"),
    ("nvidia-smi: inaccessible or not found", "not-installed"),
    ("nvidia-smi: no such file", "not-installed"),
    ("command not found: nvidia-smi", "not-installed"),
    ("'nvidia-smi' not found", "not-installed"),
    ("'nvidia-smi' is not recognized", "not-installed"),
    ("nvidia-smi has failed", "other"),
    ("segmentation fault", "other"),
)
_BEGINNINGS = ("failed to ", "unable to ", "error", "nvml: ", "nvidia-smi: ")  # of others
_GOES_ON = ("make sure that", "please ", "nvml library version", "reboot the system")
_WARNING = "warning:"
_COMMAND = re.compile(r"(?:== |[$#] ).*|[^$#]{0,200}[$#] nvidia-smi.*|\S{0,200}nvidia-smi(?: -.*)?")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)


@dataclass
class Failures:
    kind: FailureKind | None = None
    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    unparsed: list[str] = field(default_factory=list)


def read(outside: Iterable[str]) -> Failures:
    found = Failures()
    for line in outside:
        plain = line.strip().lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
        kind = _kind(plain)
        if kind:
            found.lines.append(line)
            found.kind = kind if found.kind in {None, "other"} else found.kind
        elif found.lines and plain.startswith(_GOES_ON):
            found.lines.append(line)
        elif plain.startswith(_WARNING):
            found.warnings.append(line)
        elif plain and not _COMMAND.fullmatch(plain):
            found.unparsed.append(line)
        if kind == "lost":
            found.lost += _addresses(line)
    return found


def _kind(plain: str) -> FailureKind | None:
    for words, kind in _KINDS:
        if words in plain:
            return kind
    return "other" if plain.startswith(_BEGINNINGS) else None


def _addresses(line: str) -> list[str]:
    normal = (address.normal(one) for one in _ADDRESS.findall(line))
    return [one for one in normal if one]
