"""The effect of arguments about the IOMMU on this machine, before they are added."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from rigops.concerns.preconditions.firmware import in_the_bios
from rigops.concerns.preconditions.words import listed

if TYPE_CHECKING:
    from rigops.catalog import Catalog
    from rigops.probe.sections.firmware import Firmware

PASSTHROUGH: Final = ("iommu=pt", "iommu.passthrough=1", "iommu.passthrough=on")
INTEL_ON: Final = "intel_iommu=on"

# Arguments for something that only an IOMMU can do.
_NEEDS_ONE: Final = (*PASSTHROUGH, INTEL_ON, "amd_iommu=force_isolation")


def note(coming: Collection[str], with_them: Collection[str], firmware: Firmware | None) -> str:
    """The effect of passthrough here; else empty.

    `with_them`: all arguments of the boot that they come with, foreign ones included.
    """
    direct = next((one for one in PASSTHROUGH if one in coming), None)
    if direct is None:
        return ""
    if leaves_intel_off(firmware) and INTEL_ON not in (*coming, *with_them):
        return (
            f"{direct} alone changes nothing here: this kernel leaves Intel's IOMMU off by "
            "default (CONFIG_INTEL_IOMMU_DEFAULT_ON is not set). With the IOMMU off P2P needs "
            "neither argument; for passthrough, "
            f'declare "kernel_args": ["{INTEL_ON}", "{direct}"]'
        )
    return f"{direct} removes DMA isolation: every device can reach all of the memory"


def leaves_intel_off(firmware: Firmware | None) -> bool:
    """Known to: an Intel machine, and a kernel that waits for intel_iommu=on."""
    return firmware is not None and firmware.cpu == "intel" and firmware.intel_by_itself is False


def without_an_iommu(catalog: Catalog, firmware: Firmware | None, coming: Collection[str]) -> str:
    """Arguments that ask for an IOMMU, where the firmware offers none. Else empty."""
    asking = [one for one in coming if one in _NEEDS_ONE]
    if not asking or firmware is None or firmware.offers_iommu is not False:
        return ""
    return (
        f"the firmware offers no IOMMU, so {listed(asking)} changes nothing; P2P needs no IOMMU, "
        f"virtual machines that get cards do: {in_the_bios(catalog, firmware, 'iommu')}"
    )
