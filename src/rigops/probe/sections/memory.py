"""Main memory: how much the kernel has, what sits in which slot, and what ECC has counted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import blocks, lines, matches, preamble

MEMINFO = "/proc/meminfo"
SLOTS = "dmidecode -t memory"
COUNTERS = "ls /sys/devices/system/edac/mc"

_MEMINFO = re.compile(r"(?P<name>[A-Za-z0-9_()]{1,40}):\s+(?P<value>[0-9]{1,15})(?: kB)?\s*")
_HANDLE = re.compile(r"Handle 0x[0-9A-Fa-f]{1,8}, DMI type [0-9]{1,3},")
_FIELD = re.compile(r"\s+(?P<name>[A-Za-z][A-Za-z /-]{0,50}):(?: (?P<value>.*))?")
_SIZE = re.compile(r"(?P<number>[0-9]{1,9}) (?P<unit>[kMGT])i?B")
_RATE = re.compile(r"(?P<number>[0-9]{1,6}) (?:MT/s|MHz)")
_COUNTER = re.compile(
    r"(?P<name>mc[0-9]{1,3}(?:/(?:dimm|rank|csrow)[0-9]{1,3})?) "
    r"ce=(?P<ce>[0-9]{1,18}|-) ue=(?P<ue>[0-9]{1,18}|-) "
    r"size=(?P<size>[0-9]{1,9}|-) label=(?P<label>.*)"
)
_PREAMBLE = ("#", "Getting SMBIOS data", "SMBIOS ", "Scanning /dev/mem", "Table at ")
_EMPTY = "No Module Installed"
_MIB = {"k": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A size of 0 is an empty slot; None is what the firmware does not report."""

    locator: str
    bank: str | None = None
    size_mib: int | None = None
    kind: str | None = None  # DDR4
    mt_per_s: int | None = None  # what the module could do
    configured_mt_per_s: int | None = None  # what it does
    total_bits: int | None = None  # more than the data bits: a module with ECC
    data_bits: int | None = None
    line: str = ""


@dataclass(frozen=True, kw_only=True)
class EccCounter:
    """Of a memory controller (mc0), or of one module behind it (mc0/dimm3)."""

    name: str
    label: str
    corrected: int | None
    uncorrected: int | None
    size_mib: int | None
    line: str


@dataclass(frozen=True, kw_only=True)
class Memory:
    """None: not reported. `slots` needs root; `counters` is empty where no ECC driver runs."""

    total_kib: int | None = None
    available_kib: int | None = None
    swap_total_kib: int | None = None
    swap_free_kib: int | None = None
    slots: tuple[Slot, ...] | None = None
    correction: str | None = None  # "None", "Multi-bit ECC"
    maximum_mib: int | None = None  # that the board takes
    counters: tuple[EccCounter, ...] | None = None
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Memory:
    unparsed = list(preamble(text))
    kernel: dict[str, int] = {}
    records: list[_Record] = []
    counters: tuple[EccCounter, ...] | None = None
    for head, body in blocks(text).items():
        if head == MEMINFO:
            output, left = matches(_MEMINFO, lines(body))
            kernel = {one["name"]: int(one["value"]) for one in output}
        elif head.startswith("dmidecode"):
            records, left = _records(body)
        elif head == COUNTERS:
            counters, left = _counters(body)
        else:
            left = [head]
        unparsed += left
    slots = tuple(_slot(one) for one in records if one.title == "Memory Device")
    array = next((one for one in records if one.title == "Physical Memory Array"), None)
    return Memory(
        total_kib=kernel.get("MemTotal"),
        available_kib=kernel.get("MemAvailable"),
        swap_total_kib=kernel.get("SwapTotal"),
        swap_free_kib=kernel.get("SwapFree"),
        slots=slots or None,
        correction=array.fields.get("Error Correction Type") if array else None,
        maximum_mib=_mib(array.fields.get("Maximum Capacity", "")) if array else None,
        counters=counters,
        unparsed=tuple(unparsed),
    )


@dataclass(frozen=True)
class _Record:
    handle: str
    title: str
    fields: dict[str, str]


def _records(body: str) -> tuple[list[_Record], list[str]]:
    found: list[_Record] = []
    unparsed: list[str] = []
    handle: str | None = None
    inside = False
    for line in lines(body):
        if _HANDLE.match(line):
            handle, inside = line, False
        elif not line.strip():
            continue
        elif handle is not None:
            found.append(_Record(handle, line.strip(), {}))
            handle, inside = None, True
        elif inside and line[0].isspace():
            shape = _FIELD.match(line)
            if shape:  # a list below a field has no colon, and is none of ours
                found[-1].fields.setdefault(shape["name"], (shape["value"] or "").strip())
        elif not line.startswith(_PREAMBLE):
            unparsed.append(line)
    return found, unparsed


def _slot(record: _Record) -> Slot:
    fields = record.fields
    size, kind = fields.get("Size", ""), fields.get("Type", "")
    configured = fields.get("Configured Memory Speed") or fields.get("Configured Clock Speed", "")
    return Slot(
        locator=fields.get("Locator", "?"),
        bank=fields.get("Bank Locator"),
        size_mib=0 if size == _EMPTY else _mib(size),
        kind=kind if kind not in _NO_KIND else None,
        mt_per_s=_rate(fields.get("Speed", "")),
        configured_mt_per_s=_rate(configured),
        total_bits=_bits(fields.get("Total Width", "")),
        data_bits=_bits(fields.get("Data Width", "")),
        line=", ".join(f"{name}: {fields[name]}" for name in _SHOWN if name in fields)
        or record.handle,
    )


_NO_KIND = frozenset({"", "Unknown", "Not Specified", "<OUT OF SPEC>"})
_SHOWN = ("Locator", "Size", "Speed", "Configured Memory Speed", "Configured Clock Speed")


def _mib(value: str) -> int | None:
    shape = _SIZE.fullmatch(value)
    return int(int(shape["number"]) * _MIB[shape["unit"]]) if shape else None


def _rate(value: str) -> int | None:
    shape = _RATE.fullmatch(value)
    return int(shape["number"]) if shape else None


def _bits(value: str) -> int | None:
    shape = re.fullmatch(r"([0-9]{1,4}) bits", value)
    return int(shape[1]) if shape else None


def _counters(body: str) -> tuple[tuple[EccCounter, ...], list[str]]:
    found, unparsed = matches(_COUNTER, map(str.rstrip, lines(body)))
    return tuple(
        EccCounter(
            name=one["name"],
            label=one["label"],
            corrected=_count(one["ce"]),
            uncorrected=_count(one["ue"]),
            size_mib=_count(one["size"]),
            line=one.string,
        )
        for one in found
    ), unparsed


def _count(value: str) -> int | None:
    return None if value == "-" else int(value)


_SNIPPET = rf"""
show {MEMINFO}
get() {{ value=-; [ -r "$1" ] && read -r value <"$1"; [ -n "$value" ] || value=-; }} 2>/dev/null
block '{COUNTERS}'
for mc in /sys/devices/system/edac/mc/mc[0-9]*; do
    [ -d "$mc" ] || continue
    get "$mc/ce_count"; ce=$value
    get "$mc/ue_count"; ue=$value
    get "$mc/size_mb"; size=$value
    get "$mc/mc_name"
    echo "${{mc##*/}} ce=$ce ue=$ue size=$size label=$value"
    for dimm in "$mc"/dimm[0-9]* "$mc"/rank[0-9]*; do
        [ -d "$dimm" ] || continue
        get "$dimm/dimm_ce_count"; ce=$value
        get "$dimm/dimm_ue_count"; ue=$value
        get "$dimm/size"; size=$value
        get "$dimm/dimm_label"
        echo "${{mc##*/}}/${{dimm##*/}} ce=$ce ue=$ue size=$size label=$value"
    done
done
if [ "$(id -u)" = 0 ] && command -v dmidecode >/dev/null; then run {SLOTS}; fi
exit 0
"""

SECTION = Section(
    name="memory",
    snippet=_SNIPPET,
    parse=parse,
    wants_root=True,
    lane="machine",
    technical=EVERY_WORD,
)
