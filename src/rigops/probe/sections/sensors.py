"""Temperatures and voltages of the board: hwmon, the CPUs' throttle counters, the BMC."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Literal

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import lines

Kind = Literal["celsius", "volts", "watts", "rpm"]

HWMON = "/sys/class/hwmon"
THROTTLE = "thermal_throttle"
SDR = "ipmitool sdr"
SEL = "ipmitool sel list"

_MILLI = {"celsius": 1e-3, "volts": 1e-3, "watts": 1e-6, "rpm": 1.0}
_HWMON_KINDS: dict[str, Kind] = {"temp": "celsius", "in": "volts", "power": "watts", "fan": "rpm"}
_HWMON = re.compile(
    r"(?P<kind>temp|in|power|fan)[0-9]{1,3} (?P<fields>(?:[a-z]+=\S* )*)label=(?P<label>.*)"
)
_NUMBER = re.compile(r"[+-]?[0-9]{1,12}(?:\.[0-9]{1,6})?")
_COUNTERS = re.compile(r"(?P<cpu>cpu[0-9]{1,5}) core=(?P<core>\S+) package=(?P<package>\S+)")
_CPUS = re.compile(r"cpus=[0-9]{1,6}")  # that count; AMD's do not
# As `sensors` prints it: a degree sign may be lost, a C may be without one.
_PRINTED = re.compile(
    r"(?P<label>[^:|]{1,60}):\s+(?:(?P<value>[+-]?[0-9]{1,9}(?:\.[0-9]{1,6})?)\s?"
    r"(?P<unit>[^\sA-Za-z]{0,3}C|mV|V|mW|W|RPM)|(?P<absent>N/A|FAULT))(?=\s|$|\()(?P<rest>.*)"
)
_LIMIT = re.compile(
    r"(?P<name>high|max|crit|low|min|lcrit)\s*=\s*(?P<value>[+-]?[0-9]{1,9}(?:\.[0-9]{1,6})?)"
)
_PRINTED_KINDS: dict[str, tuple[Kind, float]] = {
    "C": ("celsius", 1.0),
    "V": ("volts", 1.0),
    "mV": ("volts", 1e-3),
    "W": ("watts", 1.0),
    "mW": ("watts", 1e-3),
    "RPM": ("rpm", 1.0),
}
_CHIP = re.compile(r"[\w-]{1,40}-(?:pci|isa|i2c|acpi|virtual|nvme|hid|mdio|spi|scsi)-[0-9a-f-]+")
_ASIDE = re.compile(r"Adapter:|\(|[^:|]{1,60}:\s+(?:[A-Za-z]|[+-]?[0-9.]+\s?(?:A|mA|J|%|MHz))")
_SDR_UNITS: dict[str, Kind] = {
    "degrees C": "celsius", "Volts": "volts", "Watts": "watts", "RPM": "rpm",
}  # fmt: skip
_SDR = re.compile(r"(?P<label>[^|]{1,60})\|(?P<value>[^|]{1,60})\|\s*(?P<state>[a-z]{2})\s*")
_SDR_VALUE = re.compile(
    r"\s*(?P<value>[+-]?[0-9]{1,9}(?:\.[0-9]{1,6})?) (?P<unit>degrees C|Volts|Watts|RPM)\s*"
)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """None: the sensor reports nothing. Its value may be wrong: see the checks."""

    chip: str
    label: str
    kind: Kind
    value: float | None
    line: str
    high: float | None = None
    critical: float | None = None


@dataclass(frozen=True)
class Throttled:
    """How often a CPU has slowed down for heat since the boot."""

    cpu: str
    core: int
    package: int
    line: str


@dataclass(frozen=True, kw_only=True)
class Sensors:
    readings: tuple[Reading, ...] = ()
    throttled: tuple[Throttled, ...] = ()  # only CPUs that have
    events: tuple[str, ...] = ()  # the BMC's own log, its last lines
    unparsed: tuple[str, ...] = ()


@dataclass
class _Found:
    readings: list[Reading] = field(default_factory=list)
    throttled: list[Throttled] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    unparsed: list[str] = field(default_factory=list)


def parse(text: str) -> Sensors:
    found = _Found()
    head = chip = ""
    for raw in lines(text):
        line = raw.strip()
        if line.startswith("== "):
            head = line[3:].strip()
            path, _, name = head.partition(" ")
            is_hwmon = path.startswith(HWMON)
            chip = f"{name or '?'} ({path.rpartition('/')[2]})" if is_hwmon else ""
        elif line:
            chip = _take(found, head, chip, line)
    return Sensors(
        readings=tuple(found.readings),
        throttled=tuple(found.throttled),
        events=tuple(found.events),
        unparsed=tuple(found.unparsed),
    )


def _take(found: _Found, head: str, chip: str, line: str) -> str:
    """Reads one line, and returns the chip that the lines after it belong to."""
    if head.startswith(SEL):
        found.events.append(line)
    elif head.startswith(HWMON):
        _keep(found, _hwmon(chip, line), line)
    elif THROTTLE in head:
        _count(found, line)
    elif head == SDR or "|" in line:
        _keep(found, _sdr(line), line)
    elif _CHIP.fullmatch(line):
        return line
    elif reading := _printed(chip, line):
        found.readings.append(reading)
    elif not _ASIDE.match(line) or not chip:
        found.unparsed.append(line)
    return chip


def _keep(found: _Found, reading: Reading | None, line: str) -> None:
    if reading is None:
        found.unparsed.append(line)
    else:
        found.readings.append(reading)


def _hwmon(chip: str, line: str) -> Reading | None:
    shape = _HWMON.fullmatch(line)
    if shape is None:
        return None
    fields = dict(one.split("=", 1) for one in shape["fields"].split())
    kind = _HWMON_KINDS[shape["kind"]]

    def scaled(name: str) -> float | None:
        value = fields.get(name, "")
        return float(value) * _MILLI[kind] if _NUMBER.fullmatch(value) else None

    return Reading(
        chip=chip,
        label=shape["label"].strip() if shape["label"] != "-" else line.split(" ", 1)[0],
        kind=kind,
        value=scaled("input"),
        high=scaled("max"),
        critical=scaled("crit"),
        line=line,
    )


def _count(found: _Found, line: str) -> None:
    shape = _COUNTERS.fullmatch(line)
    if shape:
        core, package = (
            int(float(shape[name])) if _NUMBER.fullmatch(shape[name]) else 0
            for name in ("core", "package")
        )
        found.throttled.append(Throttled(shape["cpu"], core, package, line))
    elif not _CPUS.fullmatch(line):
        found.unparsed.append(line)


def _sdr(line: str) -> Reading | None:
    shape = _SDR.fullmatch(line)
    if shape is None:
        return None
    reading = _SDR_VALUE.fullmatch(shape["value"])
    return Reading(
        chip="BMC",
        label=shape["label"].strip(),
        kind=_SDR_UNITS[reading["unit"]] if reading else "volts",
        value=float(reading["value"]) if reading else None,
        line=line,
    )


def _printed(chip: str, line: str) -> Reading | None:
    shape = _PRINTED.fullmatch(line)
    if shape is None:
        return None
    unit = shape["unit"] or "C"
    kind, scale = _PRINTED_KINDS["C" if unit.endswith("C") else unit]
    limits = {one["name"]: float(one["value"]) for one in _LIMIT.finditer(shape["rest"])}
    return Reading(
        chip=chip,
        label=shape["label"].strip(),
        kind=kind,
        value=float(shape["value"]) * scale if shape["value"] else None,
        high=limits.get("high", limits.get("max")),
        critical=limits.get("crit"),
        line=line,
    )


# A BMC is slow: its tool has a time of its own, so that it cannot cost the other sensors.
_SNIPPET = rf"""
get() {{ value=-; read -r value <"$1" || value=-; [ -n "$value" ] || value=-; }} 2>/dev/null
for chip in {HWMON}/hwmon*; do
    [ -d "$chip" ] || continue
    get "$chip/name"; block "$chip $value"
    for input in "$chip"/temp*_input "$chip"/in*_input "$chip"/power*_input "$chip"/fan*_input; do
        [ -e "$input" ] || continue
        sensor=${{input%_input}}
        get "$input"; line="${{sensor##*/}} input=$value"
        get "${{sensor}}_max"; line="$line max=$value"
        get "${{sensor}}_crit"; line="$line crit=$value"
        get "${{sensor}}_label"; echo "$line label=$value"
    done
done
cpus=0
block "/sys/devices/system/cpu {THROTTLE}"
for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
    [ -d "$cpu/thermal_throttle" ] || continue
    cpus=$((cpus + 1))
    get "$cpu/thermal_throttle/core_throttle_count"; core=$value
    get "$cpu/thermal_throttle/package_throttle_count"
    [ "$core $value" = "0 0" ] || echo "${{cpu##*/}} core=$core package=$value"
done
echo "cpus=$cpus"
command -v ipmitool >/dev/null && command -v timeout >/dev/null || return 0
[ -r /dev/ipmi0 ] || [ -r /dev/ipmi/0 ] || [ -r /dev/ipmidev/0 ] || return 0
code=0
block "{SDR}"; timeout 8 ipmitool sdr || code=1
block "{SEL} last 50"; timeout 3 ipmitool sel list last 50 || code=1
return $code
"""

SECTION = Section(
    name="sensors",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=15,
    wants_root=True,
    lane="machine",
    technical=EVERY_WORD,
)
