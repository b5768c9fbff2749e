"""A machine as it comes up: what the tests on machines take for granted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.vm.qemu import CARDS, SLOTS
from tests.shards import VM_LAB
from tests.vm.looking import group_of, group_types

if TYPE_CHECKING:
    from tests.lab.laptop import Laptop
    from tests.lab.vm.machines import Machine
    from tests.vm.conftest import Machines

pytestmark = pytest.mark.shard(VM_LAB)


@pytest.fixture(scope="module")
def machine(module_vm: Machines) -> Machine:
    """One that no test changes."""
    return module_vm.up()


def test_a_machine_boots_through_grub(machine: Machine) -> None:
    assert "BOOT_IMAGE=/vmlinuz-" in machine.ssh("cat /proc/cmdline")
    assert "GNU GRUB" in machine.console()
    assert machine.ssh("systemctl is-system-running --wait || systemctl --failed") == "running"


def test_its_users_are_those_of_a_rig(machine: Machine) -> None:
    assert machine.ssh("sudo -n id -u", user="rig") == "0"


def test_its_iommu_translates(machine: Machine) -> None:
    assert group_types(machine) == {"DMA-FQ"}


def test_its_command_line_and_groups_are_the_kernel_s_own(machine: Machine) -> None:
    mounts = machine.ssh("cat /proc/mounts")
    assert "/proc/cmdline" not in mounts
    assert "iommu" not in mounts


def test_its_watchdog_is_the_one_that_resets_it(machine: Machine) -> None:
    assert machine.ssh("cat /sys/class/watchdog/watchdog0/identity") == "i6300ESB timer"
    assert machine.ssh("ls /dev/watchdog?") == "/dev/watchdog0"


def test_doctor_sees_two_cards_in_groups_of_the_kernel_s(machine: Machine, laptop: Laptop) -> None:
    laptop.declare({machine.name: machine.data})
    said = laptop.doctor("-i", "inventory.py")
    seen = said.seen(machine.name)
    assert seen.one("gpu.count")["status"] == "ok", seen.one("gpu.count")
    mode = seen.one("iommu.mode")
    assert mode["status"] == "fail"
    evidence = str(mode["evidence"])
    for card, slot in zip(CARDS[:2], SLOTS[:2], strict=True):
        assert f"{group_of(machine, card)} DMA-FQ {card}" in evidence
        assert f"/{slot}/{card}" in machine.ssh(f"readlink -f /sys/bus/pci/devices/{card}")
        assert group_of(machine, card) != group_of(machine, slot)
    assert group_of(machine, CARDS[0]) != group_of(machine, CARDS[1])
