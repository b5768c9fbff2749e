"""Measurements of uninterruptible power supplies, by NUT's upsc: the power that they give."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe.section import Section
from rigops.probe.text import blocks, stripped

UPSC: Final = "upsc"
_MOST: Final = 4  # that are asked

_VALUE = re.compile(r"(?P<name>ups\.[a-z.]{1,40}): (?P<value>\S.{0,80})")
_NUMBER = re.compile(r"[0-9]{1,7}(?:\.[0-9]{1,4})?")
_REALPOWER, _NOMINAL = "ups.realpower", "ups.realpower.nominal"
_LOAD, _STATUS = "ups.load", "ups.status"


@dataclass(frozen=True, kw_only=True)
class UpsReading:
    """`watts`: None where it measures none. `lines`: those that say so, or the error."""

    name: str
    watts: float | None = None
    status: str = ""  # such as OL, on line, or OB, on battery
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ups:
    """No readings: there is no upsc, or it knows no UPS."""

    readings: tuple[UpsReading, ...] = ()
    unparsed: tuple[str, ...] = ()

    @property
    def measured(self) -> tuple[UpsReading, ...]:
        return tuple(one for one in self.readings if one.watts is not None)

    @property
    def watts(self) -> float | None:
        """Of all that measure it."""
        return sum(one.watts or 0.0 for one in self.measured) if self.measured else None


def parse(text: str) -> Ups:
    readings: list[UpsReading] = []
    unparsed: list[str] = []
    for head, body in blocks(text).items():
        command, _, name = head.partition(" ")
        if command != UPSC or not name:
            unparsed.append(head)
        elif not name.startswith("-"):  # a list, of which each is asked
            readings.append(_reading(name, stripped(body)))
    return Ups(readings=tuple(readings), unparsed=tuple(unparsed))


def _reading(name: str, lines: list[str]) -> UpsReading:
    shapes = {shape["name"]: shape for line in lines if (shape := _VALUE.fullmatch(line))}
    watts, names = _number(shapes, _REALPOWER), [_REALPOWER]
    load, nominal = _number(shapes, _LOAD), _number(shapes, _NOMINAL)
    if watts is None and load is not None and nominal is not None:
        watts, names = load * nominal / 100, [_LOAD, _NOMINAL]
    errors = tuple(line for line in lines if line.startswith("Error: "))
    status = shapes.get(_STATUS)
    return UpsReading(
        name=name,
        watts=watts,
        status=status["value"] if status else "",
        lines=errors if watts is None else tuple(shapes[one].string for one in names),
    )


def _number(shapes: Mapping[str, re.Match[str]], name: str) -> float | None:
    value = shapes[name]["value"] if name in shapes else ""
    return float(value) if _NUMBER.fullmatch(value) else None


# Those that feed this host are in upsmon's configuration: MONITOR UPS POWER USER PASSWORD TYPE, of
# which only the first two words are looked at. Without it, those of a server on this host. Serial
# numbers stay there.
_SNIPPET = rf"""
command -v {UPSC} >/dev/null || return 0
patient=; if command -v timeout >/dev/null; then patient="timeout 3"; fi
brief() {{
    block "{UPSC} $1"
    $patient {UPSC} "$1" </dev/null 2>&1 | while IFS= read -r line; do
        case $line in ups.realpower* | ups.load:* | ups.status:* | Error:*) say "$line" ;; esac
    done
}}
count=0
for file in /etc/nut/upsmon.conf /etc/ups/upsmon.conf; do
    [ -r "$file" ] || continue
    while read -r word ups power _; do
        case $word:$power:$ups in
            MONITOR:0:* | MONITOR:*:-*) ;;
            MONITOR:*:?*)
                count=$((count + 1))
                [ "$count" -gt {_MOST} ] || brief "$ups"
                ;;
        esac
    done <"$file"
done
[ "$count" = 0 ] || return 0
set -f
block "{UPSC} -l"
for ups in $($patient {UPSC} -l </dev/null 2>/dev/null); do
    count=$((count + 1))
    case $ups in -*) ;; *) [ "$count" -gt {_MOST} ] || brief "$ups" ;; esac
done
return 0
"""

SECTION = Section(
    name="ups",
    snippet=_SNIPPET,
    parse=parse,
    wants_root=True,
    lane="machine",
    technical=f"{UPSC} {_REALPOWER} {_NOMINAL} {_LOAD} {_STATUS} Error",
)
