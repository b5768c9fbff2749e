"""Containers that see NVIDIA's devices, and what lets them open these, now and after a reload."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import rigops
from rigops.dataclass import dataclass
from rigops.probe.gpu_units import Device, GpuCgroups, GpuUnit
from rigops.probe.section import Section
from rigops.probe.text import blocks, matches, preamble, shown_time, stripped

GROUPS: Final = "cat /proc/[0-9]*/cgroup"
MAJORS: Final = "/proc/devices"
SYSTEMD: Final = "systemctl --version"
UNITS: Final = "systemctl show"
PROGRAMS: Final = "device programs"

_GROUP = re.compile(r"/.{0,1000}")
_MAJOR = re.compile(r"(?P<number>[0-9]{1,6}) (?P<name>nvidia\S{0,60})")
_VERSION = re.compile(r"systemd (?P<version>[0-9]{1,4})\b")
_PROPERTY = re.compile(
    r"(?P<name>Id|DevicePolicy|DeviceAllow|ActiveEnterTimestamp)=(?P<value>.{0,400})"
)
_ALLOWED = re.compile(r"(?P<path>\S{1,300}) (?P<access>[rwm]{1,3})")
_BY_NUMBER = re.compile(r"/dev/char/(?P<major>[0-9]{1,6}):(?P<minor>[0-9]{1,8})")
_CARD = re.compile(r"/dev/nvidia(?P<minor>[0-9]{1,4})")
_CAPABILITY = re.compile(r"/dev/nvidia-caps/nvidia-cap(?P<minor>[0-9]{1,6})")
_READ = re.compile(
    r"engine=(?P<engine>[a-z-]{0,20}) name=(?P<name>[A-Za-z0-9_.-]{0,64}) "
    r"runtime=(?P<runtime>\S*) systemd=(?P<systemd>\S*) (?P<cgroup>/.{0,1000})"
)
_DEVICE = re.compile(r"(?P<major>[0-9]{1,6}):(?P<minor>[0-9]{1,8})=(?P<access>rw?|w)")
_GENERATOR = re.compile(r"generator (?P<epoch>[0-9]{1,12})")
_UNREAD = re.compile(r"unread (?P<why>.{1,200})")

# The nodes without a number in their name: the driver's name of their major, and their minor.
_NODES: Final = {
    "/dev/nvidiactl": ("nvidia", 255),
    "/dev/nvidia-modeset": ("nvidia", 254),
    "/dev/nvidia-uvm": ("nvidia-uvm", 0),
    "/dev/nvidia-uvm-tools": ("nvidia-uvm", 1),
}


@dataclass(frozen=True)
class _Programs:
    """What the device programs of one control group allow; None: one could not be read."""

    engine: str
    name: str
    runtime: tuple[Device, ...] | None
    systemd: tuple[Device, ...] | None
    line: str


def parse(text: str) -> GpuCgroups:
    found = blocks(text)
    known = {GROUPS, MAJORS, SYSTEMD, UNITS, PROGRAMS}
    unparsed = [*preamble(text), *(head for head in found if head not in known)]
    groups, left = matches(_GROUP, stripped(found.get(GROUPS, "")))
    unparsed += left
    majors = {
        one["name"]: int(one["number"])
        for one in matches(_MAJOR, stripped(found.get(MAJORS, "")))[0]
    }
    version = _VERSION.match(found.get(SYSTEMD, ""))
    properties = _properties(found.get(UNITS, ""), unparsed)
    programs, generator_at, unread = _programs(found.get(PROGRAMS, ""), unparsed)
    by_unit: dict[str, list[str]] = {}
    for group in dict.fromkeys(one[0] for one in groups):
        by_unit.setdefault(unit_of(group) or group, []).append(group)
    return GpuCgroups(
        units=tuple(
            _unit(members, properties.get(unit, ()), majors, programs)
            for unit, members in by_unit.items()
        ),
        generator_at=generator_at,
        systemd=int(version["version"]) if version else None,
        unread=unread or ("" if programs or not groups else "no python3 on the host"),
        unparsed=tuple(unparsed),
    )


def unit_of(cgroup: str) -> str:
    """The unit of the host's systemd; of a container of a user that is the user's manager."""
    inside = next((part for part in cgroup.split("/")[1:] if not part.endswith(".slice")), "")
    return inside if inside.endswith((".scope", ".service")) else ""


def _unit(
    groups: list[str],
    properties: Iterable[tuple[str, str]],
    majors: Mapping[str, int],
    programs: Mapping[str, _Programs],
) -> GpuUnit:
    allowed = [value for name, value in properties if name == "DeviceAllow" and value]
    values = dict(properties)
    policy = values.get("DevicePolicy", "")
    of_groups = [programs[one] for one in groups if one in programs]
    is_read = len(of_groups) == len(groups)
    return GpuUnit(
        unit=unit_of(groups[0]),
        cgroup=groups[0],
        started=shown_time(values.get("ActiveEnterTimestamp", "")),
        name=next((one.name for one in of_groups if one.name), ""),
        engine=next((one.engine for one in of_groups if one.engine), ""),
        policy="" if policy == "auto" and not allowed else policy,
        told=tuple(device for one in allowed for device in _told(one, majors)),
        runtime=_together(one.runtime for one in of_groups) if is_read else None,
        systemd=_together(one.systemd for one in of_groups) if is_read else None,
        line=next((one.line for one in of_groups), groups[0]),
    )


def _together(lists: Iterable[tuple[Device, ...] | None]) -> tuple[Device, ...] | None:
    every = list(lists)
    if any(one is None for one in every):
        return None
    return tuple(dict.fromkeys(device for one in every for device in one or ()))


def _told(entry: str, majors: Mapping[str, int]) -> list[Device]:
    """Of an entry of DeviceAllow, the devices of NVIDIA that it names."""
    shape = _ALLOWED.fullmatch(entry)
    if shape is None:
        return []
    path, access = shape["path"], shape["access"].replace("m", "")
    if by_number := _BY_NUMBER.fullmatch(path):
        numbers = [(int(by_number["major"]), int(by_number["minor"]))]
        return [Device(*one, access) for one in numbers if one[0] in majors.values()]
    if path.startswith("char-"):
        of = path.removeprefix("char-")  # a name, or as crun writes it a number
        named = {number for name, number in majors.items() if fnmatchcase(name, of)}
        named |= {number for number in majors.values() if str(number) == of}
        return [Device(number, None, access) for number in sorted(named)]
    if card := _CARD.fullmatch(path):
        name, minor = "nvidia", int(card["minor"])
    elif capability := _CAPABILITY.fullmatch(path):
        name, minor = "nvidia-caps", int(capability["minor"])
    else:
        name, minor = _NODES.get(path, ("", 0))
    major = majors.get(name, majors.get(f"{name}-frontend"))
    return [] if major is None else [Device(major, minor, access)]


def _properties(body: str, unparsed: list[str]) -> dict[str, list[tuple[str, str]]]:
    """Those of each unit, in their order: an empty line is between two."""
    found: dict[str, list[tuple[str, str]]] = {}
    for part in re.split(r"\n\s*\n", body):
        shapes, left = matches(_PROPERTY, stripped(part))
        values = [(one["name"], one["value"].strip()) for one in shapes]
        if unit := dict(values).get("Id"):
            found[unit] = values
        unparsed += left
    return found


def _programs(body: str, unparsed: list[str]) -> tuple[dict[str, _Programs], int | None, str]:
    found: dict[str, _Programs] = {}
    generator_at: int | None = None
    unread = ""
    for line in stripped(body):
        if shape := _READ.fullmatch(line):
            found[shape["cgroup"]] = _Programs(
                shape["engine"],
                shape["name"],
                _devices(shape["runtime"]),
                _devices(shape["systemd"]),
                line,
            )
        elif shape := _GENERATOR.fullmatch(line):
            generator_at = int(shape["epoch"])
        elif shape := _UNREAD.fullmatch(line):
            unread = shape["why"]
        else:
            unparsed.append(line)
    return found, generator_at, unread


def _devices(listed: str) -> tuple[Device, ...] | None:
    shapes = [_DEVICE.fullmatch(one) for one in listed.split(",") if one]
    if not all(shapes):
        return None
    return tuple(
        Device(int(one["major"]), int(one["minor"]), one["access"]) for one in shapes if one
    )


_PROGRAM = (Path(rigops.__file__).parent / "hostside/device_programs.py").read_text("utf-8")

# A container has a root of its own. Without one that sees a card nothing is started.
_SNIPPET = f"""
[ -e /proc/driver/nvidia ] || return 0
is_root || return
groups='' units='' count=0
add() {{ # PID
    cgroup=
    {{ while IFS= read -r line; do
        case $line in 0::/?*) cgroup=${{line#0::}} ;; esac
    done; }} 2>/dev/null <"/proc/$1/cgroup"
    case $cgroup in ''|*[!A-Za-z0-9@:._/\\\\-]*) return ;; esac
    case "$groups " in *" $cgroup "*) return ;; esac
    [ $count -lt 64 ] || return
    count=$((count + 1)) groups="$groups $cgroup"
    rest=${{cgroup#/}}
    while :; do case $rest in *.slice/*) ;; *) break ;; esac
        case ${{rest%%/*}} in *.slice) rest=${{rest#*/}} ;; *) break ;; esac
    done
    unit=${{rest%%/*}}
    case $unit in *.scope|*.service) ;; *) return ;; esac
    case "$units " in *" $unit "*) ;; *) units="$units $unit" ;; esac
}}
for root in /proc/[0-9]*/root; do
    # shellcheck disable=SC3013  # every sh that runs this has it
    if [ "$root" -ef / ] || [ ! -e "$root/dev/nvidiactl" ]; then continue; fi
    pid=${{root%/root}}; add "${{pid#/proc/}}"
done
block "{GROUPS}"
[ -n "$groups" ] || return 0
for one in $groups; do say "$one"; done
block "{MAJORS}"
while IFS= read -r line; do
    case $line in *nvidia*) say "$line" ;; esac
done <{MAJORS}
if command -v systemctl >/dev/null; then
    run {SYSTEMD}
    block "{UNITS}"
    [ -z "$units" ] || TZ=UTC systemctl show --no-pager -p Id -p DevicePolicy -p DeviceAllow \\
        -p ActiveEnterTimestamp -- $units 2>&1
fi
if command -v python3 >/dev/null; then
    block "{PROGRAMS}"
    python3 -I -c '{_PROGRAM}' $groups 2>&1
fi
return 0
"""

_TECHNICAL = (
    f"{GROUPS} {MAJORS} {SYSTEMD} {UNITS} {PROGRAMS} generator unread engine name runtime systemd "
    "docker libpod podman containerd Id DevicePolicy DeviceAllow ActiveEnterTimestamp UTC strict "
    "closed auto char dev rw rwm nvidia nvidia-frontend nvidiactl nvidia-uvm nvidia-caps scope "
    "service slice"
)

SECTION = Section(
    name="gpu-cgroups",
    snippet=_SNIPPET,
    parse=parse,
    wants_root=True,
    lane="machine",
    technical=_TECHNICAL,
)
