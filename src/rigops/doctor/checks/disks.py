"""What disks say of themselves (SMART)."""

from __future__ import annotations

from typing import Final

from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, fix_by_hand
from rigops.probe.sections.smart import SECTION as SMART
from rigops.probe.sections.smart import Smart, SmartDisk

MOST_USED_PERCENT: Final = 90  # of the writes that the maker warrants
# An NVMe disk's own warning, by bit; the others are added by later versions of NVMe.
_CRITICAL: Final = {
    0: "its spare blocks are used up",
    1: "it is too hot",
    2: "it has become unreliable",
    3: "it takes no more writes",
    4: "its cache is no longer backed up",
}
_HOT: Final = 0b10
_SHOWN: Final = 5
_SAVE = fix_by_hand("save the data now, and replace the disk")
_WATCH = fix_by_hand(
    "save the data, run `sudo smartctl -t long DISK`, and replace the disk if the number grows"
)


@Check("disk.smart", needs=(SMART,), needs_gpu=False, fixes=("hands",))
def smart(examined: Examined) -> Finding | list[Finding]:
    """No disk reports that it fails (SMART).

    Asks each disk that does not sleep, by smartctl or nvme. A disk that judges itself as failing,
    and a critical warning of an NVMe disk, are a failure, and a warning where it is only too hot.
    Sectors that an ATA disk cannot read, media errors of an NVMe disk, and 90 % of its warranted
    writes are a warning. Without root, without either program, and behind a controller that passes
    nothing on, it is unknown. In a paste of smartctl known lines tell.
    """
    answer = examined.snapshot[SMART]
    found = answer.value
    if found is None:
        return Finding("unknown", "the disks were not asked (SMART)")
    if found.names is None:
        why = "takes root" if answer.without_root else "was not collected"
        return Finding("unknown", f"what the disks say of themselves (SMART) {why}")
    return [
        *(one for disk in found.disks if (one := _judged(disk))),
        *_rest(found, is_complete=answer.is_complete),
    ]


def _judged(disk: SmartDisk) -> Finding | None:
    """None: nothing is wrong, or known."""
    subject = disk.device
    lines = (disk.head, *disk.lines[:_SHOWN])
    cited = tuple(Evidence(SMART.name, line) for line in lines)
    if reasons := [text for bit, text in _CRITICAL.items() if (disk.critical or 0) >> bit & 1]:
        is_hot = disk.critical == _HOT
        cool = fix_by_hand("give the disk a heat sink and air; a card that blows on it heats it")
        return Finding(
            "warn" if is_hot else "fail",
            f"the disk warns: {', '.join(reasons)}",
            cited,
            subject=subject,
            why="An NVMe disk sets this itself, by limits of its maker.",
            fix=cool if is_hot else _SAVE,
            data={"critical_warning": disk.critical},
        )
    if disk.passed is False:
        return Finding(
            "fail",
            "the disk reports that it fails",
            cited,
            subject=subject,
            why="It has passed a limit that its maker set.",
            fix=_SAVE,
        )
    if count := disk.unreadable or disk.media_errors:
        what = "sectors that it cannot read" if disk.unreadable else "data errors of its flash"
        return Finding(
            "warn",
            f"the disk has counted {count} {what}",
            cited,
            subject=subject,
            why="What was there is lost unless a copy exists, and more often follow.",
            fix=_WATCH,
        )
    if disk.used_percent is not None and disk.used_percent >= MOST_USED_PERCENT:
        return Finding(
            "warn",
            f"the disk has used {disk.used_percent} % of the writes that its maker warrants",
            cited,
            subject=subject,
            why="It may run on for long; a warranty does not, and wear only grows.",
            fix=fix_by_hand("have a backup, and plan for another disk"),
        )
    return None


def _rest(found: Smart, *, is_complete: bool) -> list[Finding]:
    """Of all disks together: those that could not be judged, or that all are well."""
    asked = {disk.device.removeprefix("/dev/"): disk for disk in found.disks}
    unknown = [one for one in found.names or () if one not in asked or not _is_known(asked[one])]
    if unknown:
        listed = ", ".join(unknown[:_SHOWN])
        if asked:
            return [Finding("unknown", f"no answer (SMART) of {listed}")]
        install = fix_by_hand("`sudo apt-get install smartmontools`")
        return [
            Finding("unknown", f"neither smartctl nor nvme is there to ask {listed}", fix=install)
        ]
    if not is_complete or found.unparsed:
        return [Finding("unknown", "the disks' answers (SMART) were not collected whole")]
    judged = [disk for disk in found.disks if disk.is_judged]
    if any(map(_judged, judged)):
        return []
    if not judged:
        is_asleep = any(disk.is_asleep for disk in found.disks)
        why = "the disks sleep, and are left asleep" if is_asleep else "no disk has SMART"
        return [Finding("skipped", why)]
    names = ", ".join(disk.device for disk in judged[:_SHOWN])
    cited = tuple(Evidence(SMART.name, disk.head) for disk in judged[:_SHOWN])
    return [Finding("ok", f"no fault is reported by {names}", cited)]


def _is_known(disk: SmartDisk) -> bool:
    return disk.is_judged or disk.is_asleep or not disk.has_smart
