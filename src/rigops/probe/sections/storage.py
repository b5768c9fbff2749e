"""File systems and disks: mounts, btrfs, devices; space, md and ZFS for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from rigops.dataclass import dataclass
from rigops.probe import mounts
from rigops.probe.btrfs import Btrfs, btrfs
from rigops.probe.mounts import Mounts
from rigops.probe.section import Section
from rigops.probe.text import blocks, lines, matches, preamble

MOUNTS = "/proc/self/mounts"
FSTAB = "/etc/fstab"
DISKS = "lsblk -Pb -o NAME,PKNAME,TYPE,SIZE,ROTA,TRAN,FSTYPE,MOUNTPOINT,MODEL"
ARRAYS = "/proc/mdstat"
POOLS = "zpool status -x"
UUIDS = "blkid -p -s UUID"  # of what is mounted

_UUID = re.compile(r'(?P<device>/\S+):(?: UUID="(?P<uuid>[^"]*)")? ?')
_PAIR = re.compile(r'([A-Z]{2,12})="([^"]*)"')
_FOR_PEOPLE = ("df ", ARRAYS, "zpool ")
_KINDS = "btrfs|zfs|nfs4?|cifs|smb3|9p|virtiofs|bcachefs|autofs|fuse[.][^ ]+"  # without a device


@dataclass(frozen=True, kw_only=True)
class BlockDevice:
    name: str
    parent: str | None
    type: str  # disk, part, raid1, crypt, lvm, loop
    bytes: int | None
    transport: str | None  # nvme, sata, usb
    file_system: str | None
    model: str | None
    line: str


@dataclass(frozen=True, kw_only=True)
class Storage:
    """None: not collected, or not reported."""

    mounts: Mounts | None = None  # of real file systems only
    planned: Mounts | None = None  # by fstab
    disks: tuple[BlockDevice, ...] | None = None
    btrfs: tuple[Btrfs, ...] = ()
    uuids: Mapping[str, str] = field(default_factory=dict)  # those known, by sources of mounts
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Storage:
    found = blocks(text)
    unparsed = list(preamble(text))
    mounted = planned = disks = None
    uuids: dict[str, str] = {}
    for head, body in found.items():
        left: list[str] = []
        if head == MOUNTS:
            mounted, left = mounts.mounted(body)
        elif head == FSTAB:
            planned, left = mounts.planned(body)
        elif head.startswith("lsblk"):
            disks, left = _disks(body)
        elif head == UUIDS:
            known, left = matches(_UUID, [one for one in lines(body) if one.strip()])
            uuids = {one["device"]: one["uuid"] for one in known if one["uuid"]}
        elif not head.startswith(("btrfs ", *_FOR_PEOPLE)):
            left = [head]
        unparsed += left
    volumes, left = btrfs(found)
    return Storage(
        mounts=mounted,
        planned=planned,
        disks=disks,
        btrfs=volumes,
        uuids=uuids,
        unparsed=(*unparsed, *left),
    )


def is_collected(kind: str, source: str) -> bool:
    """Wherever it is mounted, its mount is among those that the probe looks for."""
    is_named = source.startswith(("/dev/", "//")) or ":/" in source
    return is_named or re.fullmatch(_KINDS, kind) is not None


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
        transport=pairs.get("TRAN") or None,
        file_system=pairs.get("FSTYPE") or None,
        model=pairs.get("MODEL", "").strip() or None,
        line=line,
    )


# A dead server must not hold up what is known of the disks: df looks at local ones only, where it
# can distinguish them.
_SNIPPET = rf"""
block '{MOUNTS}'
grep -m 500 -E '^/dev/|^[^ ]+:/|^//|^[^ ]+ [^ ]+ ({_KINDS}) |^[^ ]+ / ' {MOUNTS}
echo
show_kernel {FSTAB} {ARRAYS}
if command -v lsblk >/dev/null; then run {DISKS}; fi
local=l said=$(df -Pkl 2>&1)
case $said in
    *"Filesystem "*) block "df -Pkl"; say "$said" ;;
    *) local=; run df -Pk ;; # that of busybox has no -l
esac
run df -Pi$local
if is_root && command -v zpool >/dev/null && [ -d /proc/spl/kstat/zfs ]; then
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
        if is_root; then
            run btrfs filesystem usage -b "$target"
            run btrfs scrub status "$target"
        fi
    done <{MOUNTS}
fi
if is_root && command -v blkid >/dev/null; then
    set --
    while read -r source _; do
        case " $* " in *" $source "*) continue ;; esac
        case $source in *\\*) ;; /dev/*) set -- "$@" "$source" ;; esac
    done <{MOUNTS}
    block "{UUIDS}"
    [ $# = 0 ] || blkid -p -s UUID "$@" </dev/null 2>/dev/null
fi
return 0
"""

_TECHNICAL = (
    f"{MOUNTS} {FSTAB} {DISKS} {ARRAYS} {POOLS} all pools are healthy no pools available findmnt "
    "Filesystem raid0 raid1 raid10 raid5 raid6 linear multipath faulty auto-read-only active "
    "Personalities unused devices btrfs device stats filesystem usage scrub status "
    "size unallocated missing read write flush corruption generation Status started "
    "there are uncorrectable errors csum verify super no stats available Overall Device devid disk "
    "write_io_errs read_io_errs flush_io_errs corruption_errs generation_errs io errs "
    "finished running aborted interrupted Error summary Uncorrectable Scrub ro rw ext4 cifs "
    "iso9660 squashfs cramfs erofs udf blkid UUID"
)

SECTION = Section(
    name="storage",
    snippet=_SNIPPET,
    parse=parse,
    wants_root=True,
    timeout_s=12,
    lane="machine",
    technical=_TECHNICAL,
)
