"""What a virtual machine cannot see of its bus, and whether there is an IOMMU at all."""

from __future__ import annotations

from rigops.concerns.kernel_args.iommu import INTEL_ON, leaves_intel_off
from rigops.doctor.check import Check, Examined
from rigops.doctor.finding import Evidence, Finding
from rigops.doctor.views import board, pcie
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.firmware import SECTION as FIRMWARE
from rigops.probe.sections.iommu_groups import SECTION as IOMMU_GROUPS
from rigops.probe.sections.kernel_log import SECTION as KERNEL_LOG
from rigops.probe.sections.lspci import SECTION as LSPCI
from rigops.probe.sections.pci import SECTION as PCI

IOMMU = "iommu.present"

_ONLY_FOR_GUESTS = "P2P needs no IOMMU. To pass cards to virtual machines"


@Check("acs.in_vm", needs=(BOOT, PCI, LSPCI))
def in_vm(examined: Examined) -> Finding:
    """The ACS that a virtual machine cannot see.

    Asks systemd-detect-virt, and looks for devices that only hypervisors have. In a virtual machine
    ACS and IOMMU between the cards are the host's: this check then says unknown, never ok, and
    acs.path does the same.
    """
    boot = examined.snapshot[BOOT].value
    said = boot.virtualization if boot else None
    evidence = (Evidence(BOOT.name, said),) if said else ()
    is_virtual = pcie.is_virtual_machine(examined.snapshot)
    if is_virtual is False:
        summary = "this is no virtual machine: the ports that it sees are the real ones"
        return Finding("ok", summary, evidence)
    if is_virtual is None:
        summary = "whether this is a virtual machine is not known"
        return Finding("unknown", summary)
    return Finding(
        "unknown",
        "a virtual machine: the ACS and the IOMMU that matter are the hypervisor's",
        evidence,
        why="Inside a guest these bits can be neither seen nor changed. Between cards that are "
        "passed through, the host's translation and ACS decide whether P2P works: look there, "
        "and let `rigops preflight` measure it here.",
    )


@Check("iommu.present", needs=(BOOT, PCI, IOMMU_GROUPS, FIRMWARE, KERNEL_LOG, LSPCI))
def iommu_present(examined: Examined) -> Finding:
    """Whether an IOMMU is active.

    Counts /sys/kernel/iommu_groups. Both answers are normal; with an IOMMU, iommu.mode and acs.path
    decide whether it stands between the cards. The kernel's log line about the default domain is
    not looked at: it is printed without a working IOMMU as well.
    """
    groups = examined.snapshot[IOMMU_GROUPS].value
    if groups is None:
        return Finding("unknown", "the IOMMU groups were not collected")
    if groups.members:
        count = len({member.group for member in groups.members})
        seen = Evidence(IOMMU_GROUPS.name, groups.members[0].line)
        return Finding("info", f"an IOMMU is active, with {count} groups", (seen,))
    if groups.is_off and examined.snapshot[IOMMU_GROUPS].is_complete:
        return Finding("info", "no IOMMU is active: there is no group", why=_how_to(examined))
    return Finding("unknown", "the IOMMU groups could not be read")


def _how_to(examined: Examined) -> str:
    """Nothing to mend: only virtual machines that get cards need one."""
    seen = board.firmware(examined.snapshot)
    if pcie.is_virtual_machine(examined.snapshot):
        return ""
    if seen.offers_iommu is False:
        return f"{_ONLY_FOR_GUESTS}: {board.steps(examined, 'iommu')}"
    if seen.offers_iommu and leaves_intel_off(seen):
        return (
            f"{_ONLY_FOR_GUESTS}: this kernel leaves Intel's off unless the kernel line has "
            f"{INTEL_ON}; the firmware offers it"
        )
    return ""
