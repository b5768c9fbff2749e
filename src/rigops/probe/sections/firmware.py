"""The board and what its firmware offers, and what the kernel makes of Intel's IOMMU by itself."""

from __future__ import annotations

import re
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import blocks, matches, stripped

Cpu = Literal["amd", "intel", ""]

VENDOR: Final = "/sys/class/dmi/id/board_vendor"
BOARD: Final = "/sys/class/dmi/id/board_name"
BIOS: Final = "/sys/class/dmi/id/bios_version"
CPU: Final = "grep vendor_id /proc/cpuinfo"
TABLES: Final = "ls /sys/firmware/acpi/tables"
KERNEL: Final = "grep CONFIG_INTEL_IOMMU /boot/config"

_CPUS: Final[dict[str, Cpu]] = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}
_GROUPS: Final = "iommu_groups"  # a kernel that uses one was offered it, in whatever table
_OFFERED: Final = frozenset({"DMAR", "IVRS", _GROUPS})
_OPTION = re.compile(r"(?P<name>CONFIG_\w+)=(?P<value>\S+)|# (?P<unset>CONFIG_\w+) is not set")
_INTEL = "CONFIG_INTEL_IOMMU"
# The second is Debian's own: on, but for graphics inside the CPU.
_ON_BY_ITSELF: Final = (f"{_INTEL}_DEFAULT_ON", f"{_INTEL}_DEFAULT_ON_INTGPU_OFF")


@dataclass(frozen=True, kw_only=True)
class Firmware:
    """Empty or None: not reported.

    `offers_iommu`: the firmware describes one to the kernel, which it does not where it is off.
    `intel_by_itself`: the kernel switches Intel's IOMMU on without an argument.
    """

    vendor: str = ""
    board: str = ""
    bios: str = ""  # its version
    cpu: Cpu = ""
    offers_iommu: bool | None = None
    intel_by_itself: bool | None = None
    raw: tuple[str, ...] = ()  # the raw lines behind the two last ones
    unparsed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return " ".join(word for word in (self.vendor, self.board) if word)


def parse(text: str) -> Firmware:
    found = blocks(text)
    cpu = found.get(CPU, "").partition(":")[2].strip()
    tables, kernel = stripped(found.get(TABLES, "")), stripped(found.get(KERNEL, ""))
    known = {VENDOR, BOARD, BIOS, CPU, TABLES, KERNEL}
    return Firmware(
        vendor=" ".join(found.get(VENDOR, "").split()),
        board=" ".join(found.get(BOARD, "").split()),
        bios=" ".join(found.get(BIOS, "").split()),
        cpu=_CPUS.get(cpu, ""),
        offers_iommu=bool(_OFFERED & set(tables)) if TABLES in found else None,
        intel_by_itself=_intel_by_itself(kernel),
        raw=(*tables, *kernel),
        unparsed=tuple(head for head in found if head not in known),
    )


def _intel_by_itself(output: list[str]) -> bool | None:
    shapes, _ = matches(_OPTION, output)
    options = {shape["name"] or shape["unset"]: shape["value"] or "n" for shape in shapes}
    if options.get(_INTEL) != "y":
        return None
    if any(options.get(name) == "y" for name in _ON_BY_ITSELF):
        return True
    return False if _ON_BY_ITSELF[0] in options else None


_SNIPPET = f"""
show_kernel {VENDOR} {BOARD} {BIOS}
block "{CPU}"
while IFS= read -r line; do
    case $line in vendor_id*) say "$line"; break ;; '') break ;; esac
done </proc/cpuinfo
if [ -d /sys/firmware/acpi/tables ]; then
    block "{TABLES}"
    for table in DMAR IVRS; do
        if [ -e "/sys/firmware/acpi/tables/$table" ]; then echo "$table"; fi
    done
    [ ! -e /sys/kernel/{_GROUPS}/0 ] || echo {_GROUPS}
fi
{{ read -r release </proc/sys/kernel/osrelease || release=$(uname -r); }} 2>/dev/null
for file in "/boot/config-$release" "/usr/lib/modules/$release/config" /proc/config.gz; do
    [ -r "$file" ] || continue
    block "{KERNEL}"
    case $file in
        *.gz) gzip -dc "$file" 2>/dev/null | grep CONFIG_INTEL_IOMMU ;;
        *) grep CONFIG_INTEL_IOMMU "$file" ;;
    esac
    break
done
return 0
"""

SECTION = Section(
    name="firmware", snippet=_SNIPPET, parse=parse, lane="files", technical=EVERY_WORD
)
