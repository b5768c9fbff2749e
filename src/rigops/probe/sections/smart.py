"""How the disks judge themselves."""

from __future__ import annotations

import json
import re
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import blocks, lines, preamble, stripped

_SMARTCTL: Final = "smartctl -n standby -j -a "
_NVME: Final = "nvme smart-log -o json "
DISKS: Final = "ls /sys/block"

_ASKED: Final = re.compile(
    rf"(?:{re.escape(_SMARTCTL)}|{re.escape(_NVME)})(?P<device>/dev/[a-z0-9]{{2,20}})"
)
_ASLEEP: Final = re.compile(r"\bSTANDBY\b|\bSLEEP mode\b")
_DISK: Final = re.compile(r"[a-z]{2,4}[a-z0-9]{1,16}")
_HEALTH: Final = "nvme_smart_health_information_log"
# As ATA numbers them.
_REPORTED: Final = 187
_PENDING: Final = 197
_OFFLINE: Final = 198
_COUNTER: Final = 0xFFFF_FFFF  # above it some makers keep other numbers
_VALUES: Final = re.compile(
    r'"(?:passed|critical_warning|percentage_used|percent_used|media_errors)"|'
    r'"(?:Current_Pending_Sector|Offline_Uncorrectable|Reported_Uncorrect)"'
)


@dataclass(frozen=True, kw_only=True)
class SmartDisk:
    """None: not reported. `critical` are the bits of an NVMe disk's own warning."""

    device: str
    is_asleep: bool = False
    has_smart: bool = True  # virtual disks have none
    passed: bool | None = None
    critical: int | None = None
    used_percent: int | None = None
    media_errors: int | None = None
    unreadable: int | None = None  # sectors of an ATA disk that wait, or were given up
    lines: tuple[str, ...] = ()  # those with such values
    head: str = ""

    @property
    def is_judged(self) -> bool:
        return self.passed is not None or self.critical is not None


@dataclass(frozen=True, kw_only=True)
class Smart:
    """`names`: the disks that there are, sticks left out; None: not asked, which takes root."""

    names: tuple[str, ...] | None = None
    disks: tuple[SmartDisk, ...] = ()
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Smart:
    names: tuple[str, ...] | None = None
    disks: list[SmartDisk] = []
    unparsed = list(preamble(text))
    for head, body in blocks(text).items():
        asked = _ASKED.fullmatch(head)
        if head == DISKS:
            found = stripped(body)
            names = tuple(name for name in found if _DISK.fullmatch(name))
            unparsed += [name for name in found if not _DISK.fullmatch(name)]
        elif asked:
            disks.append(_disk(asked["device"], head, body))
        else:
            unparsed.append(head)
    if names is None and disks:  # earlier bundles have no list
        names = tuple(one.device.removeprefix("/dev/") for one in disks)
    return Smart(names=names, disks=tuple(disks), unparsed=tuple(unparsed))


def _disk(device: str, head: str, body: str) -> SmartDisk:
    try:
        output = json.loads(body)
    except (ValueError, RecursionError):
        output = None
    if not isinstance(output, dict) or _ASLEEP.search(body):
        return SmartDisk(device=device, head=head, is_asleep=bool(_ASLEEP.search(body)))
    health = output.get(_HEALTH)
    own = health if isinstance(health, dict) else output  # of nvme itself
    attributes = _attributes(output)
    waiting = [attributes[one] for one in (_REPORTED, _PENDING, _OFFLINE) if one in attributes]
    status = output.get("smart_status")
    support = output.get("smart_support")
    passed = status.get("passed") if isinstance(status, dict) else None
    return SmartDisk(
        device=device,
        head=head,
        has_smart=not (isinstance(support, dict) and support.get("available") is False),
        passed=passed if isinstance(passed, bool) else None,
        critical=_count(own.get("critical_warning")),
        used_percent=_count(own.get("percentage_used", own.get("percent_used"))),
        media_errors=_count(own.get("media_errors")),
        unreadable=max(waiting, default=None),
        lines=tuple(line.strip() for line in lines(body) if _VALUES.search(line)),
    )


def _attributes(output: dict[str, object]) -> dict[int, int]:
    """Raw values of an ATA disk, by number."""
    found = output.get("ata_smart_attributes")
    table = found.get("table") if isinstance(found, dict) else None
    values: dict[int, int] = {}
    for row in table if isinstance(table, list) else ():
        raw = row.get("raw") if isinstance(row, dict) else None
        value = _count(raw.get("value")) if isinstance(raw, dict) else None
        if value is not None and isinstance(row.get("id"), int):
            values[row["id"]] = value & _COUNTER
    return values


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# Each disk gets its own time, so that one that does not answer costs only itself; one that sleeps
# is left asleep.
_SNIPPET = rf"""
get() {{ value=-; [ -r "$1" ] && read -r value <"$1"; [ -n "$value" ] || value=-; }} 2>/dev/null
is_root || return 0
disks=
for disk in /sys/block/sd* /sys/block/nvme* /sys/block/hd*; do
    [ -e "$disk/device" ] || continue
    [ -b "/dev/${{disk##*/}}" ] || continue
    get "$disk/removable"
    [ "$value" = 1 ] || disks="$disks ${{disk##*/}}"
done
block '{DISKS}'
for disk in $disks; do echo "$disk"; done
brief() {{ if command -v timeout >/dev/null; then timeout 3 "$@"; else "$@"; fi; }}
for disk in $disks; do
    disk=/dev/$disk ask=
    if command -v smartctl >/dev/null; then ask='{_SMARTCTL}'
    elif [ "${{disk#/dev/nvme}}" != "$disk" ] && command -v nvme >/dev/null; then ask='{_NVME}'
    fi
    [ -n "$ask" ] || continue
    block "$ask$disk"
    brief $ask"$disk" 2>&1 | grep -v '"serial_number"' | head -c 60000
    echo
done
return 0
"""

SECTION = Section(
    name="smart",
    snippet=_SNIPPET,
    parse=parse,
    wants_root=True,
    timeout_s=20,
    lane="machine",
    technical=EVERY_WORD,
)
