"""The size of /dev/shm, which the first process mounts without asking anybody: half of memory.

A unit of ours gives it another size after systemd-remount-fs has done what fstab says. The entry
in fstab, if there is one, stays its owner's.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.concerns.base.limit_files import MADE, LimitPlan, PlannedFile, as_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.concerns.base.facts import HostState
    from rigops.probe.mounts import Mount
    from rigops.probe.sections import limits as section
    from rigops.probe.sections.rigops_state import OwnedUnit

UNIT: Final = "rigops-shm.service"
PATH: Final = f"/etc/systemd/system/{UNIT}"
FOLDER: Final = "/dev/shm"  # noqa: S108 - the subject

_START: Final = (
    f"systemctl daemon-reload\nsystemctl enable --quiet {UNIT}\nsystemctl restart {UNIT}"
)

_DEFAULT: Final = "50%"
_SLACK: Final = 1024**2  # the kernel rounds to pages, and a share of memory is known in KiB
_PERCENT: Final = 100


@dataclass(frozen=True)
class Size:
    """As mount takes it, and in bytes where they are known."""

    option: str
    bytes: int | None

    def is_live(self, found: int | None) -> bool:
        """Unknown counts as live: else every run would do it again."""
        return found is None or self.bytes is None or abs(found - self.bytes) < _SLACK


def size(text: str, memory_bytes: int | None) -> Size | None:
    """None: the kernel takes no such size. A share of memory is a whole percentage to it."""
    if text.endswith("%"):
        share = text.removesuffix("%").strip()
        if not share.isdecimal():
            return None
        return Size(f"{share}%", memory_bytes and memory_bytes * int(share) // _PERCENT)
    count = as_bytes(text)
    return None if count is None else Size(str(count), count)


def sized(
    declared: str,
    found: section.Limits,
    around: HostState,
    *,
    is_owned: bool,
    units: Mapping[str, OwnedUnit],
) -> LimitPlan:
    """`is_owned`: the unit is there already, so that what holds may be its doing."""
    wanted = size(declared, around.memory_bytes)
    if wanted is None:
        text = f"the kernel takes whole percentages for {FOLDER}, and not {declared}"
        return LimitPlan(blockers=(text,))
    used = found.shm_used_bytes
    if wanted.bytes is not None and used is not None and used > wanted.bytes:
        text = f"{FOLDER} holds {used} bytes now, more than the declared {declared}"
        return LimitPlan(blockers=(f"{text}: end what uses it, or delete what was left there",))
    before, live = planned(around), wanted.is_live(found.shm_bytes)
    is_same = wanted.bytes is not None and wanted.bytes == before.bytes
    if not is_owned and live and is_same:
        return LimitPlan()
    unit = units.get(UNIT)
    runs = unit is None or (unit.active == "active" and unit.enabled == "enabled")
    notices: tuple[str, ...] = ()
    if _option(around.planned_shm) and not is_same:
        fstab = f"/etc/fstab gives {FOLDER} size={before.option}"
        notices = (f"{fstab}: the unit of rigops sets {declared} after it, at every boot",)
    held = PlannedFile(PATH, unit_text(wanted), _START, live=live and runs)
    return LimitPlan((held,), notices=notices)


def planned(around: HostState) -> Size:
    """What it is without us: fstab's size, or the kernel's own."""
    option = _option(around.planned_shm) or _DEFAULT
    found = size(option, around.memory_bytes)
    return Size(option, found.bytes if found else None)


def unit_text(wanted: Size) -> str:
    return f"""\
{MADE}[Unit]
Description=Size of {FOLDER} as declared
DefaultDependencies=no
After=systemd-remount-fs.service
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/mount -o remount,size={wanted.option.replace("%", "%%")} {FOLDER}

[Install]
WantedBy=sysinit.target
"""


def giving_back(around: HostState) -> str:
    """The command that makes it what it was without us."""
    return shlex.join(("mount", "-o", f"remount,size={planned(around).option}", FOLDER))


def _option(mount: Mount | None) -> str:
    found = [one for one in (mount.options if mount else ()) if one.startswith("size=")]
    return found[-1].removeprefix("size=") if found else ""
