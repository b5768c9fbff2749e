"""Influences on a host's limits besides rigops: foreign files, memory, the kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from rigops.dataclass import dataclass
from rigops.facts.sections import SectionFact
from rigops.probe import mounts
from rigops.probe.section import Section
from rigops.probe.sections.limits import Bound, bound
from rigops.probe.text import assignments, blocks

FSTAB: Final = "/etc/fstab"
MEMORY: Final = "grep MemTotal /proc/meminfo"
MOST_FILES: Final = "/proc/sys/fs/nr_open"
MAY_RAISE: Final = "ulimit -H -l unlimited"
SYSTEMD: Final = "ls /run/systemd/system"
MANAGER: Final = "systemctl show"
REMOVE_IPC: Final = "busctl get-property logind RemoveIPC"

_FOLDERS = ("/usr/lib", "/usr/local/lib", "/run", "/etc")
_TOTAL = re.compile(r"MemTotal:\s+([0-9]{1,15}) kB")
_YES = {"yes": True, "no": False, "b true": True, "b false": False}

_CONF = " ".join(
    f"{folder}/systemd/{name}.conf{more}"
    for name in ("system", "logind")
    for folder in _FOLDERS
    for more in ("", ".d/*.conf")
)
_SNIPPET = f"""
block "{SYSTEMD}"
if [ -d /run/systemd/system ]; then echo yes; else echo no; fi
run {MEMORY}
show {MOST_FILES} {FSTAB} {_CONF}
block "{MAY_RAISE}"
if ({MAY_RAISE}) 2>/dev/null; then echo yes; else echo no; fi
[ -d /run/systemd/system ] || return 0
block "{MANAGER}"
{MANAGER} -p DefaultLimitMEMLOCK -p DefaultLimitNOFILE 2>&1
if command -v busctl >/dev/null; then
    block "{REMOVE_IPC}"
    busctl get-property org.freedesktop.login1 /org/freedesktop/login1 \
        org.freedesktop.login1.Manager RemoveIPC 2>&1
fi
return 0
"""


@dataclass(frozen=True, kw_only=True)
class HostState:
    """`systemd` is None where it was not collected; None elsewhere: not reported."""

    systemd: bool | None = None
    memory_bytes: int | None = None
    most_files: int | None = None  # above this no process may have files open
    may_raise: bool | None = None  # whether root here may raise limits at all
    planned_shm: mounts.Mount | None = None  # by fstab
    service_memlock: Bound | None = None  # bytes: systemd's DefaultLimitMEMLOCK
    service_nofile: Bound | None = None
    remove_ipc: bool | None = None
    settings: Mapping[str, str] = field(default_factory=dict)  # files of systemd, by path


def parse(text: str) -> HostState:
    found = blocks(text)
    memory = _TOTAL.search(found.get(MEMORY, ""))
    most = found.get(MOST_FILES, "").strip()
    planned, _ = mounts.planned(found.get(FSTAB, ""))
    manager = assignments(found.get(MANAGER, ""))
    return HostState(
        systemd=_YES.get(found.get(SYSTEMD, "").strip()),
        memory_bytes=int(memory[1]) * 1024 if memory else None,
        most_files=int(most) if re.fullmatch("[0-9]{1,15}", most) else None,
        may_raise=_YES.get(found.get(MAY_RAISE, "").strip()),
        planned_shm=next((one for one in planned if one.target == "/dev/shm"), None),  # noqa: S108 - a mount
        service_memlock=bound(manager.get("DefaultLimitMEMLOCK", "")),
        service_nofile=bound(manager.get("DefaultLimitNOFILE", "")),
        remove_ipc=_YES.get(found.get(REMOVE_IPC, "").strip()),
        settings={path: body for path, body in found.items() if "/systemd/" in path[:-1]},
    )


SECTION = Section(
    name="limit-surroundings", snippet=_SNIPPET, parse=parse, wants_root=True, lane="files"
)


class LimitSurroundings(SectionFact[HostState]):
    section = SECTION
