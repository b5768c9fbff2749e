"""Stage disks: file systems that the reinstall left alone are mounted again, where they were."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from rigops.capture.document import Capture
from rigops.dataclass import dataclass
from rigops.errors import rigops_error
from rigops.reprovision.root_shell import RunAsRoot
from rigops.transport.errors import clean

_RUN_S: Final = 120.0
_KEPT: Final = frozenset({"noatime", "nodev", "nosuid", "noexec"})
_KEPT_PREFIXES: Final = ("compress", "subvol=", "uid=", "gid=", "umask=")
_LEFT_OUT: Final = frozenset({"overlay", "tmpfs", "squashfs", "iso9660", "swap"})

LOOK: Final = r"""
while [ $# -gt 0 ]; do
    if findmnt -n "UUID=$1" "$2" >/dev/null; then echo mounted
    elif ! blkid -U "$1" >/dev/null; then echo absent
    elif mountpoint -q "$2"; then echo taken
    else echo free; fi
    shift 2
done
"""
# `nofail`: the host has to boot without the disk too.
MOUNT: Final = r"""
set -eu
uuid=$1 at=$2 type=$3 options=$4
mkdir -p "$at"
mount -t "$type" -o "$options" "UUID=$uuid" "$at"
place=$(printf %s "$at" | sed 's/ /\\040/g')
line="UUID=$uuid $place $type $options,nofail 0 0 # by rigops reprovision"
grep -qsF "UUID=$uuid $place " /etc/fstab || {
    cp -p /etc/fstab /etc/fstab.rigops-new 2>/dev/null || : >/etc/fstab.rigops-new
    [ -z "$(tail -c 1 /etc/fstab.rigops-new)" ] || echo >>/etc/fstab.rigops-new
    printf '%s\n' "$line" >>/etc/fstab.rigops-new
    sync /etc/fstab.rigops-new
    mv -f /etc/fstab.rigops-new /etc/fstab
}
"""


@dataclass(frozen=True, kw_only=True)
class LostMount:
    """Captured, and not mounted now. `state`: free, absent or taken."""

    uuid: str
    at: str
    type: str
    options: str
    state: str = "free"

    def __str__(self) -> str:
        return f"{self.at} ({self.type} {self.uuid})"


def captured_mounts(capture: Capture) -> tuple[LostMount, ...]:
    """Of file systems on other disks than the root's, outermost first."""
    wiped = {disk.name for disk in capture.disks if "root" in disk.holds}
    found = [
        LostMount(
            uuid=one.uuid,
            at=mount.at,
            type=one.type,
            options=",".join(_lasting(mount.options)),
        )
        for one in capture.file_systems
        if one.uuid and one.type not in _LEFT_OUT and not wiped & set(one.disks)
        for mount in one.mounts
        if not any(each.at in {"/", "/boot", "/boot/efi"} for each in one.mounts)
    ]
    return tuple(sorted(found, key=lambda one: one.at.count("/")))


def _lasting(options: Sequence[str]) -> Iterator[str]:
    """Without what the kernel adds by itself, and the number of a subvolume."""
    yield "ro" if "ro" in options else "rw"
    yield from (one for one in options if one in _KEPT or one.startswith(_KEPT_PREFIXES))


def lost_mounts(capture: Capture, run: RunAsRoot) -> tuple[LostMount, ...]:
    wanted = captured_mounts(capture)
    if not wanted:
        return ()
    words = [word for one in wanted for word in (one.uuid, one.at)]
    answer = run(["sh", "-c", LOOK, "rigops", *words], _RUN_S)
    if answer.exit_code != 0:
        raise rigops_error(
            message=f"what is mounted could not be read: {clean(answer.stderr)}",
            fix="see findmnt there",
        )
    states = answer.stdout.decode(errors="replace").split()
    return tuple(
        LostMount(uuid=one.uuid, at=one.at, type=one.type, options=one.options, state=state)
        for one, state in zip(wanted, states, strict=False)
        if state != "mounted"
    )


def mount(one: LostMount, run: RunAsRoot) -> str:
    """Now and at every boot. Returns what was done, or why it was not."""
    words = (one.uuid, one.at, one.type, one.options or "defaults")
    answer = run(["sh", "-c", MOUNT, "rigops", *words], _RUN_S)
    if answer.exit_code != 0:
        by_hand = shlex.join(["mount", f"UUID={one.uuid}", one.at])
        return f"{one} was not mounted: {clean(answer.stderr)}; by hand: {by_hand}"
    return f"mounted {one} again, and wrote it into /etc/fstab"
