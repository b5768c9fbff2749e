"""Everything that is known about a host, typed. None means not collected, never healthy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rigops.probe.registry import SECTIONS

if TYPE_CHECKING:
    from rigops.probe.bundle import Bundle
    from rigops.probe.kernel_log import KernelLog
    from rigops.probe.section import Section
    from rigops.probe.sections import (
        aer,
        backups,
        boot,
        bootloader,
        boots,
        container,
        cpufreq,
        dev_nodes,
        dkms,
        firmware,
        iommu_groups,
        limits,
        lspci,
        memory,
        modprobe,
        nccl,
        network,
        nvidia_modinfo,
        nvidia_params,
        nvidia_smi_nvlink,
        nvidia_smi_topo,
        nvidia_smi_xml,
        nvidia_version,
        os_release,
        package_history,
        package_holds,
        packages,
        pci,
        proc_cmdline,
        processes,
        rigops_state,
        secure_boot,
        sensors,
        smart,
        storage,
        uname,
        units,
    )
    from rigops.probe.sections.nvidia_smi_p2p_read import PeerMatrix

Facts = TypeVar("Facts")


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """One field for each section, of the type that its parser returns.

    `cut`: sections whose answer is not whole; what they do say is true, and more is missing.
    `timed_out` and `without_root`: why a section may be missing or say little.
    `collected_at` is by the clock of whoever looked, where somebody did.
    """

    os_release: os_release.OsRelease | None = None
    uname: uname.Uname | None = None
    proc_cmdline: proc_cmdline.CommandLine | None = None
    boot: boot.Boot | None = None
    pci: pci.Pci | None = None
    iommu_groups: iommu_groups.IommuGroups | None = None
    nvidia_version: nvidia_version.NvidiaVersion | None = None
    nvidia_params: nvidia_params.NvidiaParams | None = None
    nvidia_modinfo: nvidia_modinfo.NvidiaModinfo | None = None
    aer: aer.Aer | None = None
    dev_nodes: dev_nodes.DevNodes | None = None
    processes: processes.Processes | None = None
    modprobe: modprobe.Modprobe | None = None
    dkms: dkms.Dkms | None = None
    secure_boot: secure_boot.SecureBoot | None = None
    bootloader: bootloader.Bootloader | None = None
    firmware: firmware.Firmware | None = None
    package_holds: package_holds.PackageHolds | None = None
    packages: packages.Packages | None = None
    package_history: package_history.PackageHistory | None = None
    cpufreq: cpufreq.CpuFreq | None = None
    memory: memory.Memory | None = None
    limits: limits.Limits | None = None
    units: units.Units | None = None
    network: network.Network | None = None
    sensors: sensors.Sensors | None = None
    storage: storage.Storage | None = None
    smart: smart.Smart | None = None
    container: container.Container | None = None
    nccl: nccl.Nccl | None = None
    backups: backups.Backups | None = None
    rigops_state: rigops_state.RigopsState | None = None
    boots: boots.Boots | None = None
    xid_history: KernelLog | None = None
    kernel_log_previous: KernelLog | None = None
    kernel_log: KernelLog | None = None
    lspci: lspci.Lspci | None = None
    nvidia_smi_xml: nvidia_smi_xml.SmiReport | None = None
    nvidia_smi_topo: nvidia_smi_topo.Topology | None = None
    nvidia_smi_p2p_read: PeerMatrix | None = None
    nvidia_smi_p2p_write: PeerMatrix | None = None
    nvidia_smi_p2p_nvlink: PeerMatrix | None = None
    nvidia_smi_p2p_atomics: PeerMatrix | None = None
    nvidia_smi_nvlink: nvidia_smi_nvlink.NvLinks | None = None
    collected_at: str | None = None
    cut: frozenset[str] = frozenset()
    timed_out: frozenset[str] = frozenset()
    without_root: frozenset[str] = frozenset()

    def is_whole(self, section: str) -> bool:
        """For what was collected: whether what it does not name is not there."""
        return section not in self.cut


def field_of(section: str) -> str:
    return section.replace("-", "_")


def read(bundle: Bundle) -> HostFacts:
    found = bundle.sections
    return HostFacts(
        **{field_of(section.name): _facts(bundle, section) for section in SECTIONS},
        collected_at=bundle.collected_at,
        cut=frozenset(name for name, one in found.items() if not one.whole),
        timed_out=frozenset(name for name, one in found.items() if one.timed_out),
        without_root=frozenset(name for name, one in found.items() if not one.root),
    )


def _facts(bundle: Bundle, section: Section[Facts]) -> Facts | None:
    collected = bundle.sections.get(section.name)
    if collected is None or (not collected.whole and not collected.text.strip()):
        return None
    return section.parse(collected.text)
