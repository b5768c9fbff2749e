"""Which lines may matter. The host looks for the same words before it sends anything."""

from __future__ import annotations

import re
from typing import Final

# Letters, digits, blanks and _-:/ only: they go into awk and grep as they stand.
WORDS: Final = (
    "NVRM",
    "nvidia",
    "nouveau",
    "nova-core",
    "vfio",
    "AMD-Vi",
    "DMAR",
    "iommu",
    "IOMMU",
    "IO_PAGE_FAULT",
    "pcieport",
    "AER",
    "aer_",
    "PCIe Bus Error",
    "Hardware Error",
    "Hardware error",
    "APEI",
    "BERT:",
    "EDAC",
    "mce:",
    "Machine check",
    "Lockdown",
    "lockdown",
    "ecure boot",
    "ecure Boot",
    "Key was rejected",
    "key was rejected",
    "module verification",
    "taints kernel",
    "_OSC",
    "available PCIe bandwidth",
    "BAR",
    "blocked for more than",
    "lockup",
    "rcu_sched",
    "watchdog",
    "Out of memory",
    "oom-kill",
    "invoked oom",
    "segfault",
    "general protection",
    "Oops",
    "Kernel panic",
    "fallen off the bus",
    "Link Down",
    "link is not ready",
    "I/O error",
    "BTRFS",
    "nvme",
    "throttled",
    "clocksource",
    "callbacks suppressed",
    "message repeated",
    "Linux version",
    "ommand line",
    "DMI:",
    "Booting Linux",
    "Power Button",
    "PM: suspend",
    "reboot:",
)

_RELEVANT: Final = re.compile("|".join(map(re.escape, WORDS)))
# What a line without any timestamp must begin with, to be taken for one of the kernel's.
_KERNEL_SPEAKS: Final = re.compile(
    r"NVRM: |nvidia[-_ :]|nouveau[ :]|vfio[-_]|AMD-Vi: |DMAR:|iommu: |pcieport |pci(?:e|_bus)? |"
    r"AER: |APEI: |Linux version |(?:Kernel command|Command) line: |ACPI: |acpi |DMI: |usb |nvme |"
    r"\{[0-9]{1,9}\}\[Hardware Error\]|\[Hardware Error\]|\[?IO_PAGE_FAULT|Lockdown: |INFO: task |"
    r"watchdog: |message repeated |BTRFS |EXT4-fs |systemd\[1\]: |Memory: |smpboot: |x86/|\[drm\]"
)


def is_relevant(line: str) -> bool:
    return _RELEVANT.search(line) is not None


def looks_like_the_kernel(message: str) -> bool:
    return _KERNEL_SPEAKS.match(message) is not None
