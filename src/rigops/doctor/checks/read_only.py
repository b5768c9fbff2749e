"""Whether file systems that fstab mounts for writing can be written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.doctor.check import Check
from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.probe.sections.storage import SECTION as STORAGE

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.probe.mounts import Mount

_NEVER_WRITTEN: Final = frozenset({"cramfs", "erofs", "iso9660", "squashfs", "udf"})


@Check("disk.ro", needs=(STORAGE,), needs_gpu=False, fixes=("hands",))
def read_only(examined: Examined) -> Finding | list[Finding]:
    """No file system that fstab mounts for writing is read-only.

    Compares the options in /proc/self/mounts with those in fstab. The kernel makes a file system
    read-only after an error, and so can a person: both are a failure, and the kernel log tells
    which. Other file systems are not judged.
    """
    answer = examined.snapshot[STORAGE]
    storage = answer.value
    if storage is None or storage.mounts is None or storage.planned is None:
        return Finding("unknown", "mounts and fstab were not collected")
    mounted = {one.target: one for one in storage.mounts}  # the last one is on top
    found = [
        _read_only(mounted[_plain(plan.target)], plan)
        for plan in storage.planned
        if _plain(plan.target) in mounted
        and plan.type not in _NEVER_WRITTEN
        and "ro" not in plan.options
        and "ro" in mounted[_plain(plan.target)].options
    ]
    if found:
        return found
    if not answer.is_complete:
        return Finding("unknown", "mounts were not collected whole")
    return Finding("ok", "all file systems that fstab mounts for writing can be written")


def _plain(target: str) -> str:
    return target.rstrip("/") or "/"


def _read_only(mount: Mount, plan: Mount) -> Finding:
    target = mount.line.split()[1]  # a blank as \040: redaction sees the words of the line
    is_btrfs = mount.type == "btrfs"
    check = f"`sudo btrfs device stats {target}` and SMART" if is_btrfs else "SMART"
    then = "reboot" if is_btrfs else "run fsck while it is not mounted"
    return Finding(
        "fail",
        f"{mount.type} on {target} is read-only, fstab mounts it for writing",
        (Evidence(STORAGE.name, mount.line), Evidence(STORAGE.name, plan.line)),
        subject=target,
        why="After an error the kernel makes a file system read-only: nothing is saved any more.",
        fix=Fix(
            kind="hands",
            text=f"copy important data; see `journalctl -k` for the error, {check}; then {then}",
        ),
    )
