"""One module per section. The order is that of the output; what may be long comes last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rigops.probe.sections import (
    boot,
    bootloader,
    iommu_groups,
    nvidia_smi_p2p_read,
    nvidia_version,
    os_release,
    package_holds,
    packages,
    pci,
    proc_cmdline,
    rigops_state,
    uname,
)

if TYPE_CHECKING:
    from rigops.probe.section import Section

SECTIONS: tuple[Section[Any], ...] = (
    os_release.SECTION,
    uname.SECTION,
    proc_cmdline.SECTION,
    boot.SECTION,
    pci.SECTION,
    iommu_groups.SECTION,
    nvidia_version.SECTION,
    bootloader.SECTION,
    package_holds.SECTION,
    packages.SECTION,
    rigops_state.SECTION,
    nvidia_smi_p2p_read.SECTION,
)
