"""Output of nvidia-smi on the cards: in XML, as -q text, a table, a list, or by --query-gpu."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field

from rigops.dataclass import dataclass
from rigops.probe import address
from rigops.probe.smi import listing, query, smi_section, table, values, xml
from rigops.probe.smi import text as plain_text
from rigops.probe.smi.report import FailureKind, SmiReport, read_card
from rigops.probe.text import lines

_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
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
_NOT_STARTED = re.compile(r"device handle for gpu[0-9a-f:. ]{0,30}: not found")
_NUMBER = re.compile(r"handle for gpu ?(?P<number>[0-9]{1,3})\b(?!:[0-9a-f]{2}:)")
_ADDRESS = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_VERSION = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){1,4}")


def parse(text: str) -> SmiReport:
    text = text.removeprefix(_BYTE_ORDER_MARK)
    if not text.strip():
        return SmiReport(failure="not-installed")
    clean = lines(text)
    joined = "\n".join(clean)
    if xml.is_xml(joined):
        output = xml.read(joined)
    elif table.is_table(clean):
        output = table.read(clean)
    elif query.is_query(clean):
        output = query.read(clean, ends_a_line=text.endswith("\n"))
    elif listing.is_list(clean):
        output = listing.read(clean)
    else:
        output = plain_text.read(clean, ends_a_line=text.endswith("\n"))
    head = values.Values(output.head)
    error = output.head.get("error_string")
    around = _failures([*output.outside, *([error.value] if error else [])])
    cards = [read_card(one) for one in output.cards]
    unparsed = [*head.unparsed, *(line for _, missed in cards for line in missed), *around.unparsed]
    if not (cards or around.kind or output.is_complete or unparsed):
        unparsed = [line for line in clean if line.strip()]
    return SmiReport(
        driver=head.get(_version, "kmd_version", "driver_version"),
        cuda=head.get(_version, "cuda_umd_version", "cuda_version"),
        attached=head.get(values.count, "attached_gpus"),
        gpus=tuple(one for one, _ in cards),
        failure=around.kind,
        failure_lines=tuple(around.lines),
        warnings=tuple(around.warnings),
        lost=tuple(dict.fromkeys(around.lost)),
        lost_numbers=tuple(dict.fromkeys(around.lost_numbers)),
        is_complete=output.is_complete,
        unparsed=tuple(unparsed),
    )


def _version(value: str) -> str | None:
    """Newer ones add that the name is deprecated."""
    version = _VERSION.match(value)
    return version[0] if version else None


@dataclass
class _Failures:
    kind: FailureKind | None = None
    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    lost_numbers: list[int] = field(default_factory=list)
    unparsed: list[str] = field(default_factory=list)


def _failures(outside: Iterable[str]) -> _Failures:
    found = _Failures()
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
            normal = (address.normal(one) for one in _ADDRESS.findall(line))
            named = [one for one in normal if one]
            found.lost += named
            if not named and (number := _NUMBER.search(plain)):
                found.lost_numbers.append(int(number["number"]))
    return found


def _kind(plain: str) -> FailureKind | None:
    if _NOT_STARTED.search(plain):
        return "not-started"
    for words, kind in _KINDS:
        if words in plain:
            return kind
    return "other" if plain.startswith(_BEGINNINGS) else None


SECTION = smi_section("nvidia-smi-xml", "-q -x", parse, lane="cards")
