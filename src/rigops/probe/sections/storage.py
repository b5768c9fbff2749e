"""File systems, disks and their redundancy: mounts, space, btrfs, md, ZFS."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rigops.probe import mounts
from rigops.probe.btrfs import Btrfs, btrfs
from rigops.probe.section import Section
from rigops.probe.text import blocks, lines, matches, preamble

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.probe.mounts import Mounts

Facts = TypeVar("Facts")

MOUNTS = "/proc/self/mounts"
FSTAB = "/etc/fstab"
DISKS = "lsblk -Pb -o NAME,PKNAME,TYPE,SIZE,ROTA,TRAN,FSTYPE,MOUNTPOINT,MODEL"
ARRAYS = "/proc/mdstat"
POOLS = "zpool status -x"

_ROOM = re.compile(
    r"(?P<source>.*?)\s(?P<total>[0-9]{1,16})\s+(?P<used>[0-9]{1,16})\s+(?P<free>-?[0-9]{1,16})"
    r"\s+(?:[0-9]{1,4}%|-)\s+(?P<target>/.*)"
)
_PAIR = re.compile(r'([A-Z]{2,12})="([^"]*)"')
_ARRAY = re.compile(
    r"(?P<name>md[\w-]{1,40}) : (?P<state>\S+)(?: \((?:auto-)?read-only\))?"
    r"(?: (?P<level>raid[0-9]{1,2}|linear|multipath|faulty))?(?P<members>(?: .*)?)"
)
_WORKING = re.compile(r"\[(?P<wanted>[0-9]{1,4})/(?P<working>[0-9]{1,4})\]")
# The first that a head begins with counts.
_HEADS = (
    MOUNTS, "findmnt", FSTAB, "df -Pi", "df ", "lsblk", ARRAYS, "zpool", "btrfs "
)  # fmt: skip
_HEALTHY = ("all pools are healthy", "no pools available")


@dataclass(frozen=True)
class Room:
    """Of one file system, in KiB or, for inodes, in files."""

    target: str
    source: str
    total: int
    used: int
    free: int
    line: str


@dataclass(frozen=True, kw_only=True)
class BlockDevice:
    name: str
    parent: str | None
    type: str  # disk, part, raid1, crypt, lvm, loop
    bytes: int | None
    rotates: bool | None
    transport: str | None  # nvme, sata, usb
    file_system: str | None
    mounted_at: str | None
    model: str | None
    line: str


@dataclass(frozen=True, kw_only=True)
class Array:
    name: str
    state: str  # active, inactive
    level: str | None
    members: tuple[str, ...]  # sda1[0], sdb1[1](F)
    wanted: int | None
    working: int | None
    line: str
    status_line: str = ""


@dataclass(frozen=True, kw_only=True)
class Storage:
    """None: not collected, or not reported."""

    mounts: Mounts | None = None  # of real file systems only
    planned: Mounts | None = None  # by fstab
    space: tuple[Room, ...] | None = None  # KiB
    inodes: tuple[Room, ...] | None = None
    disks: tuple[BlockDevice, ...] | None = None
    btrfs: tuple[Btrfs, ...] = ()
    arrays: tuple[Array, ...] | None = None
    pools_healthy: bool | None = None
    pool_lines: tuple[str, ...] = ()
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Storage:
    found = blocks(text)
    unparsed = list(preamble(text))
    bodies: dict[str, str] = {}
    for head, body in found.items():
        if kind := next((one for one in _HEADS if head.startswith(one)), None):
            bodies[kind] = body
        else:
            unparsed.append(head)
    volumes, left = btrfs(found)

    def read(parser: Callable[[str], tuple[Facts, list[str]]], kind: str) -> Facts | None:
        if kind not in bodies:
            return None
        facts, left = parser(bodies[kind])
        unparsed.extend(left)
        return facts

    pools = [line for line in lines(bodies.get("zpool", "")) if line.strip()]
    return Storage(
        mounts=read(mounts.by_findmnt, "findmnt") or read(mounts.mounted, MOUNTS),
        planned=read(mounts.planned, FSTAB),
        space=read(_rooms, "df "),
        inodes=read(_rooms, "df -Pi"),
        disks=read(_disks, "lsblk"),
        btrfs=volumes,
        arrays=read(_arrays, ARRAYS),
        pools_healthy=pools[0].strip() in _HEALTHY if pools else None,
        pool_lines=tuple(pools),
        unparsed=(*unparsed, *left),
    )


def _rooms(body: str) -> tuple[tuple[Room, ...], list[str]]:
    found, unparsed = matches(_ROOM, lines(body))
    return tuple(
        Room(
            target=one["target"].rstrip(),
            source=one["source"].strip(),
            total=int(one["total"]),
            used=int(one["used"]),
            free=int(one["free"]),
            line=one.string,
        )
        for one in found
    ), [line for line in unparsed if not line.startswith("Filesystem")]


def _disks(body: str) -> tuple[tuple[BlockDevice, ...], list[str]]:
    found: list[BlockDevice] = []
    unparsed: list[str] = []
    for line in lines(body):
        pairs = dict(_PAIR.findall(line))
        if pairs.get("NAME") and "TYPE" in pairs:
            found.append(_disk(pairs, line))
        elif line.strip():
            unparsed.append(line)
    return tuple(found), unparsed


def _disk(pairs: dict[str, str], line: str) -> BlockDevice:
    size = pairs.get("SIZE", "")
    return BlockDevice(
        name=pairs["NAME"],
        parent=pairs.get("PKNAME") or None,
        type=pairs["TYPE"],
        bytes=int(size) if re.fullmatch(r"[0-9]{1,20}", size) else None,
        rotates={"1": True, "0": False}.get(pairs.get("ROTA", "")),
        transport=pairs.get("TRAN") or None,
        file_system=pairs.get("FSTYPE") or None,
        mounted_at=pairs.get("MOUNTPOINT") or None,
        model=pairs.get("MODEL", "").strip() or None,
        line=line,
    )


def _arrays(body: str) -> tuple[tuple[Array, ...], list[str]]:
    output = lines(body)
    found: list[Array] = []
    unparsed: list[str] = []
    for at, line in enumerate(output):
        shape = _ARRAY.fullmatch(line)
        if shape:
            status = output[at + 1] if at + 1 < len(output) else ""
            working = _WORKING.search(status)
            found.append(
                Array(
                    name=shape["name"],
                    state=shape["state"],
                    level=shape["level"],
                    members=tuple(shape["members"].split()),
                    wanted=int(working["wanted"]) if working else None,
                    working=int(working["working"]) if working else None,
                    line=line,
                    status_line=status if working else "",
                )
            )
        elif line.strip() and not line.startswith((" ", "Personalities", "unused devices")):
            unparsed.append(line)
    return tuple(found), unparsed


# A dead server must not hold up what is known of the disks: df looks at local ones only, where it
# can distinguish them.
_SNIPPET = rf"""
block '{MOUNTS}'
kinds='btrfs|zfs|nfs4?|cifs|smb3|9p|virtiofs|bcachefs'
grep -E "^/dev/|^[^ ]+:/|^//|^[^ ]+ [^ ]+ ($kinds) |^[^ ]+ / " {MOUNTS} | head -n 500 | hide
echo
show {FSTAB} {ARRAYS}
if command -v lsblk >/dev/null; then run {DISKS}; fi
local=
if df -Pkl / >/dev/null 2>&1; then local=l; fi
run df -Pk$local
run df -Pi$local
if [ "$(id -u)" = 0 ] && command -v zpool >/dev/null && [ -d /proc/spl/kstat/zfs ]; then
    run {POOLS} | head -n 200
fi
if command -v btrfs >/dev/null; then
    seen=
    while read -r source target type _; do
        [ "$type" = btrfs ] || continue
        case " $seen " in *" $source "*) continue ;; esac
        case "$target" in *\\*) continue ;; esac
        seen="$seen $source"
        run btrfs device stats "$target"
        if [ "$(id -u)" = 0 ]; then
            run btrfs filesystem usage -b "$target"
            run btrfs scrub status "$target"
            block "btrfs subvolume list -rs $target"
            btrfs subvolume list -rs "$target" 2>&1 | tail -n 200
        fi
    done <{MOUNTS}
fi
exit 0
"""

_TECHNICAL = (
    f"{MOUNTS} {FSTAB} {DISKS} {ARRAYS} {POOLS} {' '.join(_HEALTHY)} findmnt "
    "Filesystem raid0 raid1 raid10 raid5 raid6 linear multipath faulty auto-read-only active "
    "Personalities unused devices btrfs device stats filesystem usage scrub status subvolume list "
    "size unallocated missing read write flush corruption generation otime path Status started "
    "there are uncorrectable errors csum verify super no stats available"
)

SECTION = Section(
    name="storage",
    snippet=_SNIPPET,
    parse=parse,
    wants_root=True,
    timeout_s=12,
    technical=_TECHNICAL,
)
