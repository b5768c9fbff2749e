"""Where GRUB can write only to an EFI system partition, and where it can write to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.shards import VM_LAYOUTS
from tests.vm.looking import group_types
from tests.vm.trying import Tended

if TYPE_CHECKING:
    from tests.lab.laptop import Laptop
    from tests.vm.conftest import Machines

pytestmark = pytest.mark.shard(VM_LAYOUTS)

ARGUMENT = "iommu=pt"


def test_beside_a_boot_on_btrfs_the_order_for_one_boot_is_left_on_the_esp(
    vm: Machines, laptop: Laptop
) -> None:
    rig = Tended(vm.up(layout="esp"), laptop)
    rig.declare(ARGUMENT)
    planned = rig.rigops("plan", "--json").json()["hosts"][0]

    code, host = rig.apply("--reboot", "auto")

    assert planned["trial"] == {"arguments": [ARGUMENT], "not_possible": ""}
    assert any("/boot/efi" in notice for notice in planned["notices"])
    assert (code, host["outcome"]) == (0, "changed"), host
    assert any("was tried and works" in line for line in host["story"])
    assert group_types(rig.machine) == {"identity"}
    assert rig.traces() == ""
    rig.machine.reboot()
    assert group_types(rig.machine) == {"identity"}
    assert "rigops.trial" not in rig.arguments


def test_an_argument_that_panics_is_tried_once_from_the_esp_too(
    vm: Machines, laptop: Laptop
) -> None:
    rig = Tended(vm.up(layout="esp"), laptop)
    rig.declare("rdinit=/nonexistent")

    code, host = rig.apply("--reboot", "auto")

    assert (code, host["outcome"]) == (1, "failed"), host
    assert "rdinit=/nonexistent" not in rig.arguments
    assert rig.traces() == ""


def test_where_nothing_can_be_written_there_is_no_trial_and_that_is_asked(
    vm: Machines, laptop: Laptop
) -> None:
    rig = Tended(vm.up(layout="btrfs"), laptop)
    rig.declare(ARGUMENT)
    planned = rig.rigops("plan", "--json").json()["hosts"][0]

    refused, before = rig.apply("--reboot", "auto")
    untouched = rig.machine.ssh("grep -r iommu=pt /boot/grub /etc/default/ || true")
    code, host = rig.apply("--reboot", "auto", "--accept-no-trial")

    assert "btrfs" in planned["trial"]["not_possible"]
    assert (refused, before["outcome"]) == (1, "refused"), before
    assert "--accept-no-trial" in before["blocked"][0]["reason"]
    assert untouched == ""
    assert (code, host["outcome"]) == (0, "changed"), host
    assert group_types(rig.machine) == {"identity"}
