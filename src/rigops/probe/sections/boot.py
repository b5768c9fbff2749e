"""Which boot this is, on what, and whether the distribution asks for another one."""

from __future__ import annotations

import re

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import blocks, stripped

BOOT_ID = "/proc/sys/kernel/random/boot_id"
UPTIME = "/proc/uptime"
REBOOT_REQUIRED = "/run/reboot-required"
REBOOT_PACKAGES = "/run/reboot-required.pkgs"
VIRTUALIZATION = "systemd-detect-virt"
CLOCK = "date +%s"

_BOOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UPTIME = re.compile(r"([0-9]+\.[0-9]+) [0-9]+\.[0-9]+")
_EPOCH = re.compile(r"[0-9]{1,12}")
_VIRTUALIZATION = re.compile(r"[a-z0-9][a-z0-9-]{1,30}")
# They share the kernel of a machine that may be bare metal.
_CONTAINERS = frozenset(
    {"docker", "podman", "lxc", "lxc-libvirt", "systemd-nspawn", "rkt", "openvz", "proot", "pouch"}
)


@dataclass(frozen=True)
class Boot:
    boot_id: str | None = None
    uptime_s: float | None = None
    reboot_required: bool = False
    reboot_packages: tuple[str, ...] = ()
    virtualization: str | None = None  # "none" on bare metal
    epoch_s: int | None = None  # by the host's own clock
    unparsed: tuple[str, ...] = ()

    @property
    def is_virtual_machine(self) -> bool | None:
        """None where that was not reported, and in a container."""
        if self.virtualization is None or self.virtualization in _CONTAINERS:
            return None
        return self.virtualization != "none"


def parse(text: str) -> Boot:
    found = blocks(text)
    boot_id = found.get(BOOT_ID, "").strip()
    uptime = _UPTIME.fullmatch(found.get(UPTIME, "").strip())
    known_id = _BOOT_ID.fullmatch(boot_id)
    virtualization = found.get(VIRTUALIZATION, "").strip()
    epoch = found.get(CLOCK, "").strip()
    return Boot(
        boot_id=boot_id if known_id else None,
        uptime_s=float(uptime[1]) if uptime else None,
        reboot_required=REBOOT_REQUIRED in found,
        reboot_packages=tuple(dict.fromkeys(stripped(found.get(REBOOT_PACKAGES, "")))),
        virtualization=virtualization if _VIRTUALIZATION.fullmatch(virtualization) else None,
        epoch_s=int(epoch) if _EPOCH.fullmatch(epoch) else None,
        unparsed=(() if known_id else (BOOT_ID,)) + (() if uptime else (UPTIME,)),
    )


_SNIPPET = f"""
show_kernel {BOOT_ID} {UPTIME}
show {REBOOT_REQUIRED} {REBOOT_PACKAGES}
block "{CLOCK}"; say "$asked_at"
if command -v {VIRTUALIZATION} >/dev/null; then run {VIRTUALIZATION}; fi
return 0  # on bare metal it says "none" and ends with 1
"""

SECTION = Section(name="boot", snippet=_SNIPPET, parse=parse, lane="files", technical=EVERY_WORD)
