"""Which lines may matter. The host looks for the same words before it sends anything."""

from __future__ import annotations

import re
from typing import Final

# Letters, digits, blanks and _-:/ only: they go into awk and grep unquoted.
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
    "Unknown option",
    "Malformed early option",
    "DMI:",
    "Hypervisor detected",
    "Booting Linux",
    "Power Button",
    "PM: suspend",
    "reboot:",
)

# Words that the parser and the checks look for in those lines.
TECHNICAL: Final = (
    " ".join(WORDS) + " kern user daemon syslog auth authpriv cron local emerg alert crit warn "
    "notice info debug kernel Command line absent lines left out times INFO task systemd acpi usb "
    "drm Memory smpboot PCI pid name unknown GPU NVIDIA device probe routine called Request Read "
    "Write GSP RPC timeout initialize RmInitAdapter failed error annotate external supplemental "
    "necessary auxiliary power cables BAR0 BAR1 version mismatch client loading module rejected "
    "restricted unsigned service event severity fatal recoverable corrected device_id "
    "section_type port_type records from previous boot OS now controls assumes control "
    "platform does not support requesting retains willing simpleP2P p2pBandwidthLat nvbandwidth "
    "all_reduce_perf all_gather_perf sendrecv_perf NV_ERR_GPU_IS_LOST Unable can't change state "
    "D3cold D0 inaccessible not ready after giving up ko modeset Legacy drivers ignore "
    "installed system supported through open requires use modules release "
    "Multiple received containment messages Non-Fatal Physical Transaction Data Phys Trans "
    "Receiver Transmitter Requester Completer status mask flags domain address "
    "fault addr fallen off has this amd_iommu_report_page_fault dmar_fault aer_ratelimit "
    "BIOS asus asustek asrock asrockrack gigabyte supermicro micro-star"
)

_RELEVANT: Final = re.compile("|".join(map(re.escape, WORDS)))
# The beginning of a line without any timestamp that counts as one of the kernel's.
_KERNEL_SPEAKS: Final = re.compile(
    r"[a-z0-9_-]{1,40} [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]: |"
    r"NVRM: |nvidia[-_ :]|nouveau[ :]|vfio[-_]|AMD-Vi: |DMAR:|iommu: |pcieport |pci(?:e|_bus)? |"
    r"AER: |APEI: |PCI: Unknown option|Unknown kernel command|Malformed early option|"
    r"Linux version |(?:Kernel command|Command) line: |ACPI: |acpi |DMI: |usb |nvme |"
    r"\{[0-9]{1,9}\}\[Hardware Error\]|\[Hardware Error\]|\[?IO_PAGE_FAULT|Lockdown: |INFO: task |"
    r"watchdog: |[a-z_]{1,60}: [0-9]{1,9} callbacks suppressed|"
    r"message repeated |BTRFS |EXT4-fs |systemd\[1\]: |Memory: |smpboot: |x86/|\[drm\]"
)


def is_relevant(line: str) -> bool:
    return _RELEVANT.search(line) is not None


def looks_like_the_kernel(message: str) -> bool:
    return _KERNEL_SPEAKS.match(message) is not None
