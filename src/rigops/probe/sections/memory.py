"""Main memory: how much the kernel has, what is in which slot, what ECC has counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rigops.dataclass import dataclass
from rigops.numbers import whole
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import blocks, lines, matches, preamble

MEMINFO: Final = "/proc/meminfo"
COUNTERS: Final = "ls /sys/devices/system/edac/mc"
MODULES: Final = "dmidecode -t memory"

_TOTAL: Final = re.compile(r"^MemTotal: +(?P<kib>[0-9]{1,15}) kB", re.MULTILINE)
_COUNTER: Final = re.compile(
    r"(?P<name>mc[0-9]{1,3}(?:/(?:dimm|rank)[0-9]{1,3})?) ce=(?P<ce>\S+) ue=(?P<ue>\S+)"
    r" size=\S+ label=(?P<label>.*)"
)
_SIZE: Final = re.compile(r"(?P<count>[0-9]{1,9}) (?P<unit>kB|MB|GB|TB)")
_MIB: Final = {"kB": 1 / 1024, "MB": 1, "GB": 1024, "TB": 1024 * 1024}
_SPEED: Final = re.compile(r"(?P<count>[0-9]{1,6}) (?:MT/s|MHz)")
_CHANNELS: Final = (
    # "P0 CHANNEL A", "P0_Node0_Channel3_Dimm0", "Controller1-ChannelA-DIMM0"
    re.compile(r"(?i:channel)[ _-]?(?P<name>[A-Z]|[0-9]{1,2})(?![A-Za-z0-9])"),
    # "P1-DIMMA1", "DIMM_A1"
    re.compile(r"DIMM[ _-]?(?P<name>[A-P])[0-9]{1,2}(?![A-Za-z0-9])"),
)
_MODULE: Final = "Memory Device"
_EMPTY: Final = frozenset({"No Module Installed", "Not Installed"})


@dataclass(frozen=True, kw_only=True)
class EccCounter:
    """Errors since the driver was loaded: of a controller, or of one of its modules."""

    name: str
    label: str
    corrected: int | None
    uncorrected: int | None
    line: str

    @property
    def is_module(self) -> bool:
        return "/" in self.name


@dataclass(frozen=True, kw_only=True)
class MemorySlot:
    """`mib` 0: empty; None: not reported. Speeds in MT/s: what the module can do, and does."""

    mib: int | None
    locator: str = ""
    bank: str = ""
    kind: str = ""  # DDR4, DDR5; RAM and the like in virtual machines
    speed: int | None = None
    configured: int | None = None
    lines: tuple[str, ...] = ()

    @property
    def channel(self) -> tuple[str, str] | None:
        """Of a processor or controller; None: its names do not say."""
        for shape in _CHANNELS:
            for text in (self.bank, self.locator):
                if found := shape.search(text):
                    return text[: found.start()].strip(" _-"), found["name"]
        return None


@dataclass(frozen=True, kw_only=True)
class Memory:
    """None: not collected."""

    total_kib: int | None = None  # that the kernel has
    total_line: str = ""
    counters: tuple[EccCounter, ...] = ()
    slots: tuple[MemorySlot, ...] | None = None
    unparsed: tuple[str, ...] = ()

    @property
    def modules(self) -> tuple[MemorySlot, ...]:
        return tuple(one for one in self.slots or () if one.mib)


def parse(text: str) -> Memory:
    found = blocks(text)
    total = _TOTAL.search(found.get(MEMINFO, ""))
    counters, unparsed = matches(_COUNTER, lines(found.get(COUNTERS, "")))
    slots = tuple(_slots(found[MODULES])) if MODULES in found else ()
    known = {MEMINFO, COUNTERS, MODULES}
    return Memory(
        total_kib=int(total["kib"]) if total else None,
        total_line=total[0] if total else "",
        counters=tuple(
            EccCounter(
                name=one["name"],
                label=one["label"],
                corrected=whole(one["ce"]),
                uncorrected=whole(one["ue"]),
                line=one.string,
            )
            for one in counters
        ),
        slots=slots or None,
        unparsed=(*preamble(text), *unparsed, *(head for head in found if head not in known)),
    )


def _slots(text: str) -> Iterator[MemorySlot]:
    """Records are separated by blank lines; the name of one is the line before its fields."""
    fields: dict[str, str] = {}
    is_module = False
    for line in [*lines(text), ""]:
        name, colon, value = line.strip().partition(":")
        if not line.strip():
            if is_module and fields:
                yield _slot(fields)
            fields, is_module = {}, False
        elif line.strip() == _MODULE:
            is_module = True
        elif colon:
            fields.setdefault(name, value.strip())


def _slot(fields: dict[str, str]) -> MemorySlot:
    size = fields.get("Size", "")
    shape = _SIZE.fullmatch(size)
    configured = fields.get("Configured Memory Speed") or fields.get("Configured Clock Speed")
    mib = round(int(shape["count"]) * _MIB[shape["unit"]]) if shape else None
    shown = ("Size", "Locator", "Bank Locator")
    return MemorySlot(
        mib=0 if size in _EMPTY else mib,
        locator=fields.get("Locator", ""),
        bank=fields.get("Bank Locator", ""),
        kind=fields.get("Type", ""),
        speed=_speed(fields.get("Speed")),
        configured=_speed(configured),
        lines=tuple(f"{name}: {fields[name]}" for name in shown if name in fields),
    )


def _speed(text: str | None) -> int | None:
    shape = _SPEED.fullmatch(text or "")
    return int(shape["count"]) if shape else None


_SNIPPET = rf"""
show_kernel {MEMINFO}
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
if is_root && command -v dmidecode >/dev/null; then run {MODULES}; fi
return 0
"""

SECTION = Section(
    name="memory",
    snippet=_SNIPPET,
    parse=parse,
    wants_root=True,
    lane="machine",
    technical=EVERY_WORD,
)
