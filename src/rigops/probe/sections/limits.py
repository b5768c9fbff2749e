"""Limits of a process: shared and locked memory, files; and whether the clock is set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.probe.section import Section
from rigops.probe.text import blocks, lines, matches

Bound = int | Literal["unlimited"]

SHM: Final = "df -P -k /dev/shm"
OWN: Final = "/proc/self/limits"
LINGER: Final = "ls /var/lib/systemd/linger"
BALANCING: Final = "/proc/sys/kernel/numa_balancing"
NODES: Final = "/sys/devices/system/node/online"
LEFT: Final = "stat /dev/shm"
CLOCK: Final = "timedatectl show"  # in what people collect by hand
TIMESYNC: Final = "ls /run/systemd/timesync/synchronized"
CHRONY: Final = "chronyc -n tracking"
_ONCE: Final = {"systemctl show", "busctl get-property logind RemoveIPC"}  # asked here before
ULIMIT_L: Final = "ulimit -l"  # as people save it: KiB
ULIMIT_N: Final = "ulimit -n"

_LIMITS = ("/etc/security/limits.conf", "/etc/security/limits.d/")
_DF = re.compile(r"\S+ +(?P<size>[0-9]{1,15}) +(?P<used>[0-9]{1,15}) .* /dev/shm")
_OWN = re.compile(
    r"Max (?P<what>locked memory|open files) +(?P<soft>[0-9]{1,20}|unlimited) +"
    r"(?P<hard>[0-9]{1,20}|unlimited) +\S+ *"
)
_CONFIGURED = re.compile(
    r"(?P<domain>\S+)\s+(?P<kind>soft|hard|-)\s+(?P<item>[a-z]+)\s+(?P<value>\S+)\s*(?:#.*)?"
)
_RANGES = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*")
_ALL_ONES = 2**64 - 1  # how systemd writes "no limit" in numbers


@dataclass(frozen=True)
class Range:
    """The limits in force for the probing login."""

    soft: Bound
    hard: Bound
    line: str


@dataclass(frozen=True)
class Configured:
    """A line of limits.conf or limits.d; it is for logins, not for services."""

    file: str
    domain: str
    kind: str  # soft, hard or -
    item: str
    value: str
    line: str


@dataclass(frozen=True, kw_only=True)
class Limits:
    """None: not reported. `raw`: the line of each fact, by the name of its field."""

    shm_bytes: int | None = None
    shm_used_bytes: int | None = None
    memlock: Range | None = None  # bytes
    nofile: Range | None = None
    configured: tuple[Configured, ...] = ()
    numa_balancing: int | None = None
    numa_nodes: int | None = None
    ntp_synchronized: bool | None = None
    raw: Mapping[str, str] = field(default_factory=dict)
    unparsed: tuple[str, ...] = ()


_TIME = re.compile(r"NTPSynchronized=|(?:yes|no)$|Leap status", re.IGNORECASE)
_IN_TIME = {"yes": True, "no": False, "Normal": True, "Not synchronised": False}


def parse(text: str) -> Limits:
    found = blocks(text)
    known = {SHM, OWN, LINGER, BALANCING, NODES, LEFT, CLOCK}
    known |= _ONCE | {ULIMIT_L, ULIMIT_N, TIMESYNC, CHRONY}
    strange = [one for one in found if one not in known and not one.startswith(_LIMITS)]
    shm = next(iter(_every(_DF, found.get(SHM, ""))), None)
    own = {shape["what"]: shape for shape in _every(_OWN, found.get(OWN, ""))}
    balancing = found.get(BALANCING, "").strip()
    values = {
        "shm_bytes": shm[0] if shm else "",
        "numa_balancing": balancing,
        "numa_nodes": found.get(NODES, "").strip(),
        "ntp_synchronized": _clock(found),
    }
    return Limits(
        shm_bytes=int(shm["size"]) * 1024 if shm else None,
        shm_used_bytes=int(shm["used"]) * 1024 if shm else None,
        memlock=_range(own.get("locked memory")) or _alone(found.get(ULIMIT_L, ""), 1024),
        nofile=_range(own.get("open files")) or _alone(found.get(ULIMIT_N, ""), 1),
        configured=tuple(
            Configured(file, *shape.group("domain", "kind", "item", "value", 0))
            for file, body in found.items()
            if file.startswith(_LIMITS)
            for shape in _every(_CONFIGURED, body)
        ),
        numa_balancing=int(balancing) if re.fullmatch("[0-9]{1,3}", balancing) else None,
        numa_nodes=_count(values["numa_nodes"]),
        ntp_synchronized=_IN_TIME.get(re.split("[=:]", _clock(found))[-1].strip()),
        raw={name: line for name, line in values.items() if line},
        unparsed=tuple(strange),
    )


def _clock(found: Mapping[str, str]) -> str:
    """The line of the service that keeps the time here."""
    output = (
        line.strip() for head in (CLOCK, TIMESYNC, CHRONY) for line in lines(found.get(head, ""))
    )
    return next((line for line in output if _TIME.match(line)), "")


def _every(shape: re.Pattern[str], body: str) -> list[re.Match[str]]:
    return matches(shape, map(str.rstrip, lines(body)))[0]


def bound(text: str) -> Bound | None:
    if text in {"infinity", "unlimited"}:
        return "unlimited"
    if not re.fullmatch(r"[0-9]{1,20}", text):
        return None
    return "unlimited" if int(text) >= _ALL_ONES else int(text)


def _range(shape: re.Match[str] | None) -> Range | None:
    if shape is None:
        return None
    soft, hard = bound(shape["soft"]), bound(shape["hard"])
    return None if soft is None or hard is None else Range(soft, hard, shape[0])


def _alone(body: str, unit: int) -> Range | None:
    side = bound(body.strip())
    if side is None:
        return None
    side = side if isinstance(side, str) else side * unit
    return Range(side, side, body.strip())


def _count(ranges: str) -> int | None:
    """How many `0-1,4` are."""
    if not _RANGES.fullmatch(ranges):
        return None
    ends = [(one.partition("-")[0], one.rpartition("-")[2]) for one in ranges.split(",")]
    return sum(int(last) - int(first) + 1 for first, last in ends)


_SNIPPET = rf"""
if [ -d /dev/shm ]; then run {SHM}; fi
show_kernel {OWN}
set --
for file in {_LIMITS[0]} {_LIMITS[1]}*.conf; do
    [ ! -r "$file" ] || set -- "$@" "$file"
done
[ ! -r {BALANCING} ] || set -- "$@" {BALANCING}
[ $# = 0 ] || awk 'BEGIN {{
    for (at = 1; at < ARGC; at++) {{
        print "\n" ENVIRON["mark"] " == " ARGV[at]
        for (count = 0; count < 200 && (getline < ARGV[at]) > 0;)
            if ($0 !~ /^[ \t\r\f\v]*(#|$)/) {{ print; count++ }}
        close(ARGV[at])
    }}
}}' "$@"
show_kernel {NODES}
block "{LEFT}"
if command -v stat >/dev/null; then
    set --
    for file in /dev/shm/nccl-* /dev/shm/torch_* /dev/shm/cuda.shm.*; do
        if [ ! -L "$file" ] && [ -f "$file" ] && [ $# -lt 100 ]; then set -- "$@" "$file"; fi
    done
    [ $# = 0 ] || stat -c '%Y %s %n' "$@"
fi
[ -d /run/systemd/system ] || return 0
block "{LINGER}"
if [ -e "/var/lib/systemd/linger/${{LOGNAME:-$(id -un)}}" ]; then echo yes; else echo no; fi
# Not timedatectl: it starts a service, which leaves folders behind in /tmp.
if [ -d /run/systemd/timesync ]; then
    block "{TIMESYNC}"
    if [ -e /run/systemd/timesync/synchronized ]; then echo yes; else echo no; fi
elif command -v chronyc >/dev/null; then
    block "{CHRONY}"
    {CHRONY} 2>&1 | grep -i '^leap status'
fi
return 0
"""

_TECHNICAL = (
    f"{SHM} {OWN} {LINGER} {BALANCING} {NODES} {LEFT} {CLOCK} {TIMESYNC} "
    f"{CHRONY} {ULIMIT_L} {ULIMIT_N} {' '.join(_LIMITS)} .conf Max locked memory open files soft "
    "hard memlock nofile unlimited "
    "NTPSynchronized Leap status Normal Not synchronised"
)

SECTION = Section(name="limits", snippet=_SNIPPET, parse=parse, lane="files", technical=_TECHNICAL)
