"""File systems: those that became read-only, and errors, space and scrubs of btrfs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Final

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.probe.btrfs import SCRUB, USAGE, Btrfs, DeviceCounter, Scrub
from rigops.probe.mounts import Mount
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.storage import SECTION as STORAGE

_WRONG_DATA: Final = {"corruption_errs": "checksum errors", "generation_errs": "outdated blocks"}
_REFUSED: Final = {
    "write_io_errs": "failed writes",
    "read_io_errs": "failed reads",
    "flush_io_errs": "failed flushes",
}
_CHUNK_BYTES: Final = 2**30  # of data; of a small file system they are smaller
_SMALL_SHARE: Final = 20
_STALE_DAYS: Final = 90
_STARTED: Final = "%a %b %d %H:%M:%S %Y"
_Judge = Callable[[Btrfs], Finding]

_NEVER_WRITTEN: Final = frozenset({"cramfs", "erofs", "iso9660", "squashfs", "udf"})


def _each(examined: Examined, judge: _Judge) -> Finding | list[Finding]:
    answer = examined.snapshot[STORAGE]
    storage = answer.value
    if storage is None or storage.mounts is None:
        return Finding("unknown", "mounts were not collected")
    mounted = {one.source for one in storage.mounts if one.type == "btrfs"}
    found = [judge(one) for one in storage.btrfs]
    if len(found) < len(mounted):
        asked = f"{len(found)} of {len(mounted)} btrfs file systems"
        found.append(Finding("unknown", f"the btrfs tool reported on {asked}"))
    if found:
        return found
    if not answer.is_complete:
        return Finding("unknown", "mounts were not collected whole")
    return Finding("skipped", "no btrfs is mounted")


@Check("btrfs.stats", needs=(STORAGE,), needs_gpu=False, fixes=("hands",))
def stats(examined: Examined) -> Finding | list[Finding]:
    """No device of a btrfs has counted errors.

    Reads `btrfs device stats`. Checksum errors and outdated blocks are a failure: the device
    returned wrong data. Failed reads, writes and flushes are a warning: the device or its cable
    did not answer. The counters stay until they are reset, so they may be old.
    """
    return _each(examined, _judge_stats)


def _judge_stats(volume: Btrfs) -> Finding:
    if volume.counters is None:
        return Finding("unknown", "device statistics were not reported", subject=volume.target)
    counted = [one for one in volume.counters if one.count]
    if not counted:
        evidence = tuple(Evidence(STORAGE.name, one.line) for one in volume.counters[:1])
        return Finding("ok", "no device has counted errors", evidence, subject=volume.target)
    is_wrong = any(one.name not in _REFUSED for one in counted)
    named = "; ".join(f"{one.device}: {one.count} {_meaning(one)}" for one in counted)
    memory = ", and the memory (`memtest86+`)" if is_wrong else ""
    return Finding(
        "fail" if is_wrong else "warn",
        named,
        tuple(Evidence(STORAGE.name, one.line) for one in counted),
        subject=volume.target,
        why="The device returned wrong data: files may be damaged where there is no second copy."
        if is_wrong
        else "The device or its cable did not answer; data that it did not write is outdated.",
        fix=fix_by_hand(
            f"check SMART and the cable{memory}; run `sudo btrfs scrub start -B "
            f"{volume.target}`; after the repair `sudo btrfs device stats -z {volume.target}`"
        ),
    )


def _meaning(counter: DeviceCounter) -> str:
    return {**_WRONG_DATA, **_REFUSED}.get(counter.name, counter.name)


@Check("btrfs.raid_missing", needs=(STORAGE,), needs_gpu=False, fixes=("hands",))
def raid_missing(examined: Examined) -> Finding | list[Finding]:
    """Every device of a btrfs is there.

    Reads the overview of `btrfs filesystem usage`, and the devices without a name in
    `btrfs device stats`. A missing one is a failure. Without root it is unknown.
    """
    return _each(examined, _judge_devices)


def _judge_devices(volume: Btrfs) -> Finding:
    missing = volume.missing_bytes
    nameless = [one for one in volume.counters or () if not one.device.startswith("/")]
    if not missing and not nameless:
        if missing is None:
            return Finding("unknown", "devices were not reported", subject=volume.target)
        evidence = (Evidence(STORAGE.name, USAGE + volume.target),)
        return Finding("ok", "no device is missing", evidence, subject=volume.target)
    return Finding(
        "fail",
        "a device is missing" + (f" ({nameless[0].device})" if nameless else ""),
        tuple(Evidence(STORAGE.name, one.line) for one in nameless[:1])
        or (Evidence(STORAGE.name, USAGE + volume.target),),
        subject=volume.target,
        why="Data has one copy less: the loss of one more device can lose all of it.",
        fix=fix_by_hand(
            f"attach the device; one that is dead: `sudo btrfs replace start DEVID NEW "
            f"{volume.target}`, with DEVID of `sudo btrfs filesystem show {volume.target}`"
        ),
    )


@Check("btrfs.space", needs=(STORAGE,), needs_gpu=False, fixes=("hands",))
def space(examined: Examined) -> Finding | list[Finding]:
    """A btrfs has unallocated space for new chunks.

    Reads `btrfs filesystem usage`. With less than 1 GiB, or 5 % of a small file system, it is a
    warning. Without root it is unknown.
    """
    return _each(examined, _judge_space)


def _judge_space(volume: Btrfs) -> Finding:
    left, size = volume.unallocated_bytes, volume.size_bytes
    if left is None or size is None:
        return Finding("unknown", "unallocated space was not reported", subject=volume.target)
    evidence = (Evidence(STORAGE.name, USAGE + volume.target),)
    summary = f"{left / 2**30:.1f} GiB of {size / 2**30:.0f} GiB are unallocated"
    if left >= min(_CHUNK_BYTES, size // _SMALL_SHARE):
        return Finding("ok", summary, evidence, subject=volume.target)
    return Finding(
        "warn",
        summary,
        evidence,
        subject=volume.target,
        why="When metadata needs a new chunk, writes fail with ENOSPC while df shows free space.",
        fix=fix_by_hand(
            f"`sudo btrfs balance start -dusage=10 {volume.target}`, then with 30 and 50; "
            "where that frees nothing, delete files and old snapshots"
        ),
    )


@Check("btrfs.scrub", needs=(STORAGE, BOOT), needs_gpu=False, fixes=("hands",))
def scrub(examined: Examined) -> Finding | list[Finding]:
    """The last scrub of a btrfs ended well, within 90 days.

    Reads `btrfs scrub status`. Errors that could not be corrected are a failure. A scrub that did
    not end, that never ran or that is older than 90 days is information, and a warning where
    `snapshots` is declared. Without root it is unknown.
    """
    now = examined.snapshot[BOOT].or_empty.epoch_s
    has_snapshots = "snapshots" in examined.spec.declared
    return _each(examined, lambda volume: _judge_scrub(volume, now, has_snapshots=has_snapshots))


def _judge_scrub(volume: Btrfs, now: int | None, *, has_snapshots: bool) -> Finding:
    found = volume.scrub
    if found is None or found.status is None:
        return Finding("unknown", "the scrub status was not reported", subject=volume.target)
    evidence = tuple(Evidence(STORAGE.name, line) for line in found.lines)
    evidence = evidence or (Evidence(STORAGE.name, SCRUB + volume.target),)
    if count := found.faults.get("uncorrectable", 0):
        return Finding(
            "fail",
            f"the last scrub could not correct {count} errors",
            evidence,
            subject=volume.target,
            why="These blocks have no intact copy here; a read of them fails.",
            fix=fix_by_hand(
                "`journalctl -k -g 'BTRFS.*checksum'` names the files: restore them from a "
                "backup; check SMART, the cable and the memory; then scrub again"
            ),
        )
    if found.status == "running":
        return Finding("info", "a scrub is running", evidence, subject=volume.target)
    age_days = _age_days(found, now)
    if found.status == "finished" and age_days is None:
        return Finding(
            "unknown", "the age of the last scrub is unknown", evidence, subject=volume.target
        )
    if found.status == "finished" and age_days is not None and age_days <= _STALE_DAYS:
        summary = f"the last scrub was {max(age_days, 0)} days ago"
        return Finding("ok", summary, evidence, subject=volume.target)
    return Finding(
        "warn" if has_snapshots else "info",
        {
            "never": "no scrub has run yet",
            "finished": f"the last scrub was {age_days} days ago",
        }.get(found.status, f"the last scrub was {found.status}"),
        evidence,
        subject=volume.target,
        why="Only a scrub reads all data, and finds damage while a copy is intact.",
        fix=fix_by_hand(f"`sudo btrfs scrub start {volume.target}`, once a month"),
    )


def _age_days(found: Scrub, now: int | None) -> int | None:
    """To a day: the start is local time of the host, whose zone is not known here."""
    try:
        started = datetime.strptime(found.started or "", _STARTED).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return None if now is None else int((now - started.timestamp()) // 86400)


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
        _read_only(mounted[_without_slash(plan.target)], plan)
        for plan in storage.planned
        if _without_slash(plan.target) in mounted
        and plan.type not in _NEVER_WRITTEN
        and "ro" not in plan.options
        and "ro" in mounted[_without_slash(plan.target)].options
    ]
    if found:
        return found
    if not answer.is_complete:
        return Finding("unknown", "mounts were not collected whole")
    return Finding("ok", "all file systems that fstab mounts for writing can be written")


def _without_slash(target: str) -> str:
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
        fix=fix_by_hand(
            f"copy important data; see `journalctl -k` for the error, {check}; then {then}"
        ),
    )
