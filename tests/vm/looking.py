"""What tests look up on a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.lab.vm.machines import Machine


def group_types(machine: Machine) -> set[str]:
    """All that the IOMMU groups of its kernel are."""
    return set(machine.ssh("cat /sys/kernel/iommu_groups/*/type").split())


def group_of(machine: Machine, address: str) -> str:
    link = machine.ssh(f"readlink /sys/bus/pci/devices/{address}/iommu_group")
    return link.rpartition("/")[2]
