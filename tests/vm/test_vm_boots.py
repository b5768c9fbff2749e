"""Machines that boot more than once, and from each layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.shards import VM_LAB
from tests.vm.looking import group_types

if TYPE_CHECKING:
    from tests.vm.conftest import Machines

pytestmark = pytest.mark.shard(VM_LAB)

ASK_FOR_PASSTHROUGH = """\
sed -i 's/^GRUB_CMDLINE_LINUX="/&iommu=pt /' /etc/default/grub && update-grub && sync
"""


def test_an_argument_that_was_added_by_hand_makes_groups_identity(vm: Machines) -> None:
    machine = vm.up()
    machine.ssh(ASK_FOR_PASSTHROUGH)
    machine.reboot()
    assert " iommu=pt " in machine.ssh("cat /proc/cmdline")
    assert group_types(machine) == {"identity"}
    assert machine.ssh("cat /run/rigsim/iommu") == "passthrough"


def test_a_power_cut_loses_what_was_not_written_and_nothing_else(vm: Machines) -> None:
    machine = vm.up()
    before = machine.boot_id()
    machine.ssh("echo kept > /root/kept && sync && echo lost > /root/lost")
    machine.cut()
    assert not machine.is_on
    machine.start()
    assert machine.wait_for_boot(before)
    assert machine.ssh("cat /root/kept; ls /root") == "kept\nkept"
    assert machine.ssh("journalctl --list-boots --quiet | wc -l") == "2"


@pytest.mark.parametrize(
    ("layout", "kinds"),
    [
        ("ext4", {"/": "btrfs", "/boot": "ext4"}),
        ("btrfs", {"/": "btrfs"}),
        ("esp", {"/": "btrfs", "/boot/efi": "vfat"}),
    ],
)
def test_each_layout_boots(vm: Machines, layout: str, kinds: dict[str, str]) -> None:
    machine = vm.up(layout=layout, rtc="2031-01-01T00:00:00")
    mounted = machine.ssh("findmnt --noheadings --list --output TARGET,FSTYPE --real")
    found = dict(line.split() for line in mounted.splitlines())
    assert {where: found[where] for where in ("/", "/boot", "/boot/efi") if where in found} == kinds
    assert "BOOT_IMAGE=" in machine.ssh("cat /proc/cmdline")
    assert machine.ssh("date +%Y-%m") == "2031-01"
