"""Everything that is known about a host, typed. None means not collected, never healthy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

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
    from rigops.probe.bundle import Bundle
    from rigops.probe.section import Section

Facts = TypeVar("Facts")


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """`cut`: sections whose answer is not whole; what they do say is true, and more is missing."""

    os_release: os_release.OsRelease | None = None
    uname: uname.Uname | None = None
    proc_cmdline: proc_cmdline.CommandLine | None = None
    boot: boot.Boot | None = None
    pci: pci.Pci | None = None
    iommu_groups: iommu_groups.IommuGroups | None = None
    nvidia_version: nvidia_version.NvidiaVersion | None = None
    nvidia_smi_p2p_read: nvidia_smi_p2p_read.PeerMatrix | None = None
    packages: packages.Packages | None = None
    package_holds: package_holds.PackageHolds | None = None
    bootloader: bootloader.Bootloader | None = None
    rigops_state: rigops_state.RigopsState | None = None
    cut: frozenset[str] = frozenset()

    def is_whole(self, section: str) -> bool:
        """For what was collected: whether what it does not name is not there."""
        return section not in self.cut


def read(bundle: Bundle) -> HostFacts:
    return HostFacts(
        os_release=_facts(bundle, os_release.SECTION),
        uname=_facts(bundle, uname.SECTION),
        proc_cmdline=_facts(bundle, proc_cmdline.SECTION),
        boot=_facts(bundle, boot.SECTION),
        pci=_facts(bundle, pci.SECTION),
        iommu_groups=_facts(bundle, iommu_groups.SECTION),
        nvidia_version=_facts(bundle, nvidia_version.SECTION),
        nvidia_smi_p2p_read=_facts(bundle, nvidia_smi_p2p_read.SECTION),
        packages=_facts(bundle, packages.SECTION),
        package_holds=_facts(bundle, package_holds.SECTION),
        bootloader=_facts(bundle, bootloader.SECTION),
        rigops_state=_facts(bundle, rigops_state.SECTION),
        cut=frozenset(name for name, one in bundle.sections.items() if not one.whole),
    )


def _facts(bundle: Bundle, section: Section[Facts]) -> Facts | None:
    collected = bundle.sections.get(section.name)
    if collected is None or (not collected.whole and not collected.text.strip()):
        return None
    return section.parse(collected.text)
