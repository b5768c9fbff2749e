"""Facts of a host for snapshots: btrfs file systems, tools, and other programs that take some."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from rigops.concerns.snapshots.record import PUBLIC_KEY
from rigops.dataclass import dataclass
from rigops.probe.mounts import unescaped
from rigops.probe.section import Section
from rigops.probe.text import assignments, blocks, lines

MOUNTS: Final = "grep btrfs /proc/self/mountinfo"
OTHER_MOUNTS: Final = "grep -v btrfs /proc/self/mountinfo"
PYTHON: Final = "python3 -V"
TOOLS: Final = "command -v"
DISKS: Final = "blkid -t TYPE=btrfs"
SCRUB_TIMERS: Final = "ls btrfs-scrub*.timer"
OTHERS: Final = "ls of other tools"
UUID: Final = "btrfs filesystem show "
LIST: Final = "btrfs subvolume list "
READ_ONLY: Final = "btrfs subvolume list -r "

_SNAPPER: Final = "/etc/snapper/configs/"
_VERSION = re.compile(r"Python ([0-9]{1,3})\.([0-9]{1,3})")
_UUID = re.compile(r"uuid: ([0-9a-f-]{36})")
_LISTED = re.compile(r"ID [0-9]+ .*?\bpath (?P<path>.*)")
_MOUNT = re.compile(r"\S+ \S+ (?P<device>\S+) (?P<root>\S+) (?P<target>\S+) .* - btrfs .*")
_OTHER_MOUNT = re.compile(r"\S+ \S+ \S+ \S+ (?P<target>\S+) .*? - (?P<kind>\S+) .*")


@dataclass(frozen=True)
class BtrfsMount:
    """`root`: what of the file system is mounted there, by its path from the top level.

    `device`: a number that all mounts of one file system share.
    """

    target: str
    root: str
    device: str


@dataclass(frozen=True)
class OtherMount:
    """Of no btrfs."""

    target: str
    kind: str


@dataclass(frozen=True)
class FileSystem:
    """Paths of its subvolumes from the top level."""

    uuid: str
    subvolumes: frozenset[str]
    read_only: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class SnapshotsHost:
    """`file_systems`: by the device of their mounts. `disks`: UUIDs of all btrfs that are there.

    `others`: a name and a place each.
    """

    python: tuple[int, int] | None = None
    tools: frozenset[str] = frozenset()
    mounts: tuple[BtrfsMount, ...] = ()
    other_mounts: tuple[OtherMount, ...] = ()
    file_systems: Mapping[str, FileSystem] = field(default_factory=dict)
    disks: frozenset[str] = frozenset()
    scrub_timers: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    public_key: str = ""


def parse(text: str) -> SnapshotsHost:
    found = blocks(text)
    version = _VERSION.search(found.get(PYTHON, ""))
    mounts = tuple(
        BtrfsMount(unescaped(one["target"]), unescaped(one["root"]), one["device"])
        for line in lines(found.get(MOUNTS, ""))
        if (one := _MOUNT.fullmatch(line))
    )
    return SnapshotsHost(
        python=(int(version[1]), int(version[2])) if version else None,
        tools=frozenset(one.rpartition("/")[2] for one in lines(found.get(TOOLS, ""))),
        mounts=mounts,
        other_mounts=tuple(
            OtherMount(unescaped(one["target"]), one["kind"])
            for line in lines(found.get(OTHER_MOUNTS, ""))
            if (one := _OTHER_MOUNT.fullmatch(line))
        ),
        file_systems={
            head.removeprefix(UUID): _file_system(found, uuid[1], head.removeprefix(UUID))
            for head, body in found.items()
            if head.startswith(UUID) and (uuid := _UUID.search(body))
        },
        disks=frozenset(line.strip() for line in lines(found.get(DISKS, "")) if line.strip()),
        scrub_timers=tuple(line for line in lines(found.get(SCRUB_TIMERS, "")) if line.strip()),
        others=(*_snapper(found), *_others(found.get(OTHERS, ""))),
        public_key=next((one for one in lines(found.get(PUBLIC_KEY, "")) if one.strip()), ""),
    )


def _file_system(found: Mapping[str, str], uuid: str, device: str) -> FileSystem:
    """A path that is listed twice is in a name that a user made: it is not taken for read-only."""
    counts = Counter(_paths(found.get(LIST + device, "")))
    read_only = _paths(found.get(READ_ONLY + device, ""))
    return FileSystem(
        uuid, frozenset(counts), frozenset(one for one in read_only if counts[one] == 1)
    )


def _paths(body: str) -> list[str]:
    return [one["path"] for line in lines(body) if (one := _LISTED.fullmatch(line))]


def _snapper(found: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        ("snapper", f"{head} ({assignments(body).get('SUBVOLUME', '')})")
        for head, body in found.items()
        if head.startswith(_SNAPPER)
    )


def _others(body: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        ("Timeshift" if "timeshift" in line else "btrbk", line)
        for line in lines(body)
        if line.startswith("/")
    )


# Of one file system the same is asked once, however often it is mounted.
_SNIPPET = rf"""
if [ -x /usr/bin/python3 ]; then
    block "{PYTHON}"
    /usr/bin/python3 -V 2>&1
fi
block "{TOOLS}"
command -v btrfs
command -v ssh-keygen
command -v ssh
block "{MOUNTS}"
grep ' - btrfs ' /proc/self/mountinfo
block "{OTHER_MOUNTS}"
grep -v ' - btrfs ' /proc/self/mountinfo | head -n 4000
if command -v btrfs >/dev/null; then
    known=
    grep ' - btrfs ' /proc/self/mountinfo | while read -r _ _ device _ target _; do
        case "$known" in *" $device "*) continue ;; esac
        known="$known $device "
        target=$(printf '%b' "$(printf %s "$target" | sed 's/\\\([0-7]\)/\\0\1/g')")
        block "{UUID}$device"
        btrfs filesystem show "$target" 2>/dev/null </dev/null
        block "{LIST}$device"
        btrfs subvolume list "$target" 2>/dev/null </dev/null | sed -n '/^ID /p' | head -n 5000
        block "{READ_ONLY}$device"
        btrfs subvolume list -r "$target" 2>/dev/null </dev/null | sed -n '/^ID /p' | head -n 5000
    done
fi
if command -v blkid >/dev/null; then
    block "{DISKS}"
    blkid -t TYPE=btrfs -o value -s UUID
fi
block "{SCRUB_TIMERS}"
for file in /etc/systemd/system/*.wants/btrfs*scrub*.timer; do
    [ ! -L "$file" ] || printf '%s\n' "${{file##*/}}"
done
block "{OTHERS}"
for file in /etc/btrbk/*.conf /etc/btrbk.conf; do
    [ ! -f "$file" ] || printf '%s\n' "$file"
done
for file in /etc/timeshift/timeshift.json /etc/timeshift.json; do
    [ ! -f "$file" ] || ! grep -q '"btrfs_mode" *: *"true"' "$file" || printf '%s\n' "$file"
done
for file in {_SNAPPER}*; do
    [ -f "$file" ] || continue
    block "$file"
    grep -E '^[[:space:]]*SUBVOLUME=' "$file" | head -n 1
done
if [ -f {PUBLIC_KEY} ]; then show {PUBLIC_KEY}; fi
return 0
"""

SECTION = Section(
    name="snapshots-host",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=18,
    wants_root=True,
    lane="files",
    is_exact=True,
)
