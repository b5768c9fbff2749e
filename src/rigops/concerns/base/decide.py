"""From what is declared and what a host has to the files and lines that rigops has to own there.

The first process mounts /dev/shm with half of memory, or as fstab says. A unit of ours resizes it
afterwards; an entry in fstab stays.

Of /etc/nccl.conf the first NAME=VALUE line of a name counts, and # begins a comment.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from rigops.concerns.base import limits
from rigops.concerns.base.limits import MADE, LimitPlan, PlannedFile, as_bytes, others
from rigops.dataclass import dataclass
from rigops.numbers import whole
from rigops.probe.sections.rigops_state import OwnedUnit
from rigops.rendering import render

if TYPE_CHECKING:
    from rigops.concerns.base.facts import HostState
    from rigops.inventory.spec.model import Limits
    from rigops.probe.mounts import Mount
    from rigops.probe.sections import limits as section

LOGIND: Final = "/etc/systemd/logind.conf.d/90-rigops.conf"
# SIGHUP makes it read its settings again; sessions stay. systemd 252 has no reload for it.
REREAD_LOGIND: Final = """\
if systemctl is-active --quiet systemd-logind.service; then
    systemctl kill --kill-who=main --signal=HUP systemd-logind.service
fi"""

SHM: Final = "/dev/shm"  # noqa: S108 - the subject
SHM_UNIT: Final = "rigops-shm.service"
SHM_PATH: Final = f"/etc/systemd/system/{SHM_UNIT}"
_SLACK: Final = 1024**2  # the kernel rounds to pages, and a share of memory is known in KiB

_KEY: Final = "RemoveIPC"
_WORDS: Final = {
    True: frozenset({"yes", "y", "true", "t", "on", "1"}),
    False: frozenset({"no", "n", "false", "f", "off", "0"}),
}
NCCL_CONF: Final = "/etc/nccl.conf"

_SETTING = re.compile(r"\s*(?P<name>NCCL_[A-Z0-9_]+)\s*=(?P<value>[^#]*)")


def plan_limits(
    declared: Limits,
    found: section.Limits,
    around: HostState,
    *,
    owned: Collection[str] = (),
    units: Mapping[str, OwnedUnit] | None = None,
) -> LimitPlan:
    """`owned`: paths that are rigops' already."""
    if around.systemd is not True:
        why = "was not collected" if around.systemd is None else "does not run here"
        return LimitPlan(blockers=(f"limits are set through systemd, which {why}",))
    wanted = LimitPlan()
    if declared.shm is not None:
        is_owned = SHM_PATH in owned
        wanted += _sized(declared.shm, found, around, is_owned=is_owned, units=units or {})
    if bounds := limits.bounds(declared):
        wanted += limits.bounded(bounds, found, around)
    if declared.removeipc is not None:
        wanted += remove_ipc(wanted=declared.removeipc, around=around)
    return wanted


def absences(around: HostState) -> dict[str, str]:
    """For each file, the command that makes its absence count."""
    return {
        LOGIND: REREAD_LOGIND,
        SHM_PATH: shlex.join(("mount", "-o", f"remount,size={_planned(around).option}", SHM)),
    }


def remove_ipc(*, wanted: bool, around: HostState) -> LimitPlan:
    """Whether logind deletes the shared memory of a user who logs out."""

    def means(value: str) -> bool:
        return value.lower() in _WORDS[wanted]

    theirs = others(around.settings, LOGIND, _KEY)
    if theirs.already(means):
        return LimitPlan()
    overriding = theirs.overrides(means)
    content = f"{MADE}[Login]\n{_KEY}={'yes' if wanted else 'no'}\n"
    return LimitPlan(
        (PlannedFile(LOGIND, content, REREAD_LOGIND, live=around.remove_ipc in {None, wanted}),),
        (f"{overriding} as {_KEY}, which overrides the declaration",) if overriding else (),
    )


@dataclass(frozen=True)
class _Size:
    """As mount takes it, and in bytes where these are known."""

    option: str
    bytes: int | None


def _size(text: str, memory_bytes: int | None) -> _Size | None:
    """None: the kernel takes no such size. A share of memory is a whole percentage to it."""
    if text.endswith("%"):
        share = whole(text.removesuffix("%").strip())
        if share is None:
            return None
        return _Size(f"{share}%", memory_bytes and memory_bytes * share // 100)
    count = as_bytes(text)
    return None if count is None else _Size(str(count), count)


def _sized(
    declared: str,
    found: section.Limits,
    around: HostState,
    *,
    is_owned: bool,
    units: Mapping[str, OwnedUnit],
) -> LimitPlan:
    """`is_owned`: the unit is there already, so the present size may come from it."""
    wanted = _size(declared, around.memory_bytes)
    if wanted is None:
        text = f"the kernel takes whole percentages for {SHM}, and not {declared}"
        return LimitPlan(blockers=(text,))
    used = found.shm_used_bytes
    if wanted.bytes is not None and used is not None and used > wanted.bytes:
        text = f"{SHM} holds {used} bytes now, more than the declared {declared}"
        return LimitPlan(blockers=(f"{text}: end its users, or delete the files left there",))
    before, now = _planned(around), found.shm_bytes
    # Unknown counts as live: else every run would do it again.
    live = now is None or wanted.bytes is None or abs(now - wanted.bytes) < _SLACK
    is_same = wanted.bytes is not None and wanted.bytes == before.bytes
    if not is_owned and live and is_same:
        return LimitPlan()
    unit = units.get(SHM_UNIT)
    runs = unit is None or unit.runs
    notices: tuple[str, ...] = ()
    if _option(around.planned_shm) and not is_same:
        fstab = f"/etc/fstab gives {SHM} size={before.option}"
        notices = (f"{fstab}: the unit of rigops sets {declared} after it, at every boot",)
    held = PlannedFile(SHM_PATH, _unit(wanted), unit=SHM_UNIT, live=live and runs)
    return LimitPlan((held,), notices=notices)


def _planned(around: HostState) -> _Size:
    """Its size without rigops: fstab's, or the kernel's own."""
    option = _option(around.planned_shm) or "50%"
    found = _size(option, around.memory_bytes)
    return _Size(option, found.bytes if found else None)


def _unit(wanted: _Size) -> str:
    return f"""\
{MADE}[Unit]
Description=Size of {SHM} as declared
{render("rigops-unit.j2")}\
DefaultDependencies=no
After=systemd-remount-fs.service
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/mount -o remount,size={wanted.option.replace("%", "%%")} {SHM}

[Install]
WantedBy=sysinit.target
"""


def _option(mount: Mount | None) -> str:
    found = [one for one in (mount.options if mount else ()) if one.startswith("size=")]
    return found[-1].removeprefix("size=") if found else ""


@dataclass(frozen=True)
class NcclLines:
    """Declared variables against foreign lines."""

    ours: tuple[str, ...]  # lines to be added by us
    conflicts: tuple[str, ...]  # foreign, with another value: ours are not written


def nccl_headline(block: str, ours: Collection[str]) -> str:
    """`block`: the lines of rigops as they are, with their marks."""
    now = [line for line in block.splitlines() if not line.startswith("#")]
    coming = [line for line in ours if line not in now]
    going = [line for line in now if line not in ours]
    parts = (
        f"add {' '.join(coming)}" if coming else "",
        f"remove {' '.join(going)}" if going else "",
    )
    words = "; ".join(filter(None, parts))
    return f"NCCL settings ({words})" if words else "NCCL settings"


def nccl_lines(declared: Iterable[tuple[str, str]], foreign: str) -> NcclLines:
    theirs: dict[str, tuple[str, str]] = {}
    for line in foreign.splitlines():
        shape = _SETTING.match(line)
        if shape:
            theirs.setdefault(shape["name"], (shape["value"].strip(), line.strip()))
    ours: list[str] = []
    conflicts: list[str] = []
    for name, value in declared:
        if name not in theirs:
            ours.append(f"{name}={value}")
        elif theirs[name][0] != value.strip():
            conflicts.append(theirs[name][1])
    return NcclLines(tuple(ours), tuple(conflicts))
