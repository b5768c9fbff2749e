"""How the disks judge themselves, and how wide the links of the NVMe ones are."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.sections.pci import Link, link
from rigops.probe.text import blocks, lines, matches, preamble

if TYPE_CHECKING:
    from collections.abc import Mapping

SMARTCTL = "smartctl -n standby -j -a "
NVME = "nvme smart-log -o json "
LINKS = "ls /sys/class/nvme"

_LINK = re.compile(
    r"(?P<name>nvme[0-9]{1,4}) address=(?P<address>\S+) link=(?P<link>\S+) max=(?P<max>\S+)"
    r" model=(?P<model>.*)"
)
_STANDBY = 2  # the exit code that -n gives for a disk that sleeps
_KELVIN = 273
_ATTRIBUTES = {
    5: "reallocated",
    187: "reported_uncorrectable",
    197: "pending",
    198: "offline_uncorrectable",
    199: "crc",
}


@dataclass(frozen=True, kw_only=True)
class Disk:
    """None: not reported. `exit_bits` are smartctl's; 8 and more are faults of the disk."""

    device: str
    source: str  # smartctl or nvme
    model: str | None = None
    passed: bool | None = None
    sleeps: bool = False
    exit_bits: int | None = None
    celsius: int | None = None
    power_on_hours: int | None = None
    critical_warning: int | None = None  # of NVMe, as bits
    percentage_used: int | None = None
    available_spare: int | None = None
    spare_threshold: int | None = None
    media_errors: int | None = None
    unsafe_shutdowns: int | None = None
    attributes: Mapping[str, int]  # of SATA, raw: reallocated, pending, crc …
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NvmeLink:
    name: str
    address: str | None
    link: Link | None
    fastest_link: Link | None
    model: str
    line: str


@dataclass(frozen=True)
class Smart:
    disks: tuple[Disk, ...] = ()
    links: tuple[NvmeLink, ...] | None = None
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Smart:
    disks: list[Disk] = []
    links: tuple[NvmeLink, ...] | None = None
    unparsed = list(preamble(text))
    for head, body in blocks(text).items():
        left: list[str] = []
        if head == LINKS:
            links, left = _links(body)
        elif head.startswith(("smartctl ", "nvme ")):
            document = _document(body)
            device = head.rsplit(" ", 1)[-1]
            if document is None:
                left = [head]
            elif head.startswith("smartctl "):
                disks.append(_by_smartctl(device, document))
            else:
                disks.append(_by_nvme(device, document))
        else:
            left = [head]
        unparsed += left
    return Smart(tuple(disks), links, tuple(unparsed))


def _document(body: str) -> Mapping[str, object] | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _by_smartctl(device: str, document: Mapping[str, object]) -> Disk:
    output = _inside(document, "smartctl")
    log = _inside(document, "nvme_smart_health_information_log")
    bits = _number(output.get("exit_status"))
    passed = _inside(document, "smart_status").get("passed")
    messages = tuple(
        text
        for one in _list(output.get("messages"))
        if isinstance(one, dict) and isinstance(text := one.get("string"), str)
    )
    model = document.get("model_name")
    return Disk(
        device=device,
        source="smartctl",
        model=model if isinstance(model, str) else None,
        passed=passed if isinstance(passed, bool) else None,
        sleeps=bits == _STANDBY and any("STANDBY" in text.upper() for text in messages),
        exit_bits=bits,
        celsius=_number(_inside(document, "temperature").get("current")),
        power_on_hours=_number(_inside(document, "power_on_time").get("hours")),
        critical_warning=_number(log.get("critical_warning")),
        percentage_used=_number(log.get("percentage_used")),
        available_spare=_number(log.get("available_spare")),
        spare_threshold=_number(log.get("available_spare_threshold")),
        media_errors=_number(log.get("media_errors")),
        unsafe_shutdowns=_number(log.get("unsafe_shutdowns")),
        attributes=_attributes(document),
        messages=messages,
    )


def _attributes(document: Mapping[str, object]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in _list(_inside(document, "ata_smart_attributes").get("table")):
        if isinstance(one, dict):
            number, raw = _number(one.get("id")), _number(_inside(one, "raw").get("value"))
            if number in _ATTRIBUTES and raw is not None:
                found[_ATTRIBUTES[number]] = raw
    return found


def _by_nvme(device: str, log: Mapping[str, object]) -> Disk:
    """Its names changed between versions, and its temperature is in kelvin."""

    def first(*names: str) -> int | None:
        return next(
            (value for name in names if (value := _number(log.get(name))) is not None), None
        )

    kelvin = first("temperature")
    return Disk(
        device=device,
        source="nvme",
        celsius=None if kelvin is None else kelvin - _KELVIN,
        power_on_hours=first("power_on_hours"),
        critical_warning=first("critical_warning"),
        percentage_used=first("percent_used", "percentage_used"),
        available_spare=first("avail_spare", "available_spare"),
        spare_threshold=first("spare_thresh", "available_spare_threshold"),
        media_errors=first("media_errors"),
        unsafe_shutdowns=first("unsafe_shutdowns"),
        attributes={},
    )


def _inside(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _links(body: str) -> tuple[tuple[NvmeLink, ...], list[str]]:
    found, unparsed = matches(_LINK, map(str.rstrip, lines(body)))
    return tuple(
        NvmeLink(
            name=one["name"],
            address=None if one["address"] == "-" else one["address"],
            link=link(one["link"]),
            fastest_link=link(one["max"]),
            model=one["model"].strip(),
            line=one.string,
        )
        for one in found
    ), unparsed


# Each disk gets its own time, so that one that does not answer costs only itself; one that sleeps
# is left asleep.
_SNIPPET = rf"""
get() {{ value=-; [ -r "$1" ] && read -r value <"$1"; [ -n "$value" ] || value=-; }} 2>/dev/null
block '{LINKS}'
for disk in /sys/class/nvme/nvme*; do
    [ -d "$disk" ] || continue
    get "$disk/address"; address=$value
    get "$disk/device/current_link_speed"; speed=${{value%% *}}
    get "$disk/device/current_link_width"; link=$speed,$value
    get "$disk/device/max_link_speed"; speed=${{value%% *}}
    get "$disk/device/max_link_width"; most=$speed,$value
    get "$disk/model"
    echo "${{disk##*/}} address=$address link=$link max=$most model=$value"
done
[ "$(id -u)" = 0 ] || exit 0
brief() {{ if command -v timeout >/dev/null; then timeout 3 "$@"; else "$@"; fi; }}
for disk in /sys/block/sd* /sys/block/nvme* /sys/block/hd*; do
    [ -e "$disk/device" ] || continue
    disk=/dev/${{disk##*/}} ask=
    if command -v smartctl >/dev/null; then ask='{SMARTCTL}'
    elif [ "${{disk#/dev/nvme}}" != "$disk" ] && command -v nvme >/dev/null; then ask='{NVME}'
    fi
    [ -n "$ask" ] || continue
    block "$ask$disk"
    brief $ask"$disk" 2>&1 | grep -v '"serial_number"' | head -c 60000
    echo
done
exit 0
"""

SECTION = Section(
    name="smart", snippet=_SNIPPET, parse=parse, wants_root=True, timeout_s=20, technical=EVERY_WORD
)
