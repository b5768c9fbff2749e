"""Modules of the owner's under Secure Boot: a real firmware, shim, GRUB and kernel that insist.

The rig has three RTX 3090. The key is the one that DKMS made on the machine; what a person does at
the console, the lab does in the file of the firmware's variables.
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING

import pytest

from tests import own_tree
from tests.lab.driver_rig import GOOD
from tests.lab.laptop import Laptop
from tests.lab.vm import layouts
from tests.shards import VM_RIGS
from tests.vm import own_machine
from tests.vm.cutting import switch_on
from tests.vm.own_machine import OWN, STOCK
from tests.vm.own_rig import ARGUMENT, Rig

if TYPE_CHECKING:
    from tests.vm.conftest import Machines

pytestmark = pytest.mark.shard(VM_RIGS)


@pytest.fixture(scope="module")
def rig(module_vm: Machines, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    system = own_machine.system(GOOD, layouts.UEFI)
    cards = ("GeForce RTX 3090",) * 3
    machine = module_vm.up(layout=layouts.UEFI, system=system, memory=3072, cards=cards)
    laptop = Laptop(tmp_path_factory.mktemp("laptop"))
    rig = Rig(machine, laptop, GOOD, own_tree.files(GOOD, OWN))
    rig.own()
    return rig


def test_without_the_key_plan_refuses_them_and_says_how_it_is_enrolled(rig: Rig) -> None:
    said = rig.machine.ssh("cat /sys/kernel/security/lockdown; dmesg | grep 'rejected' | head -n 1")
    assert "[integrity]" in said
    assert "Loading of module with unavailable key is rejected" in said

    code, host = rig.run("plan")

    assert code == 1
    reason = next(one["reason"] for one in host["blocked"] if one["concern"] == "driver_modules")
    assert "Secure Boot is on, and the key that signs modules built here is not enrolled" in reason
    assert "mokutil --import /var/lib/dkms/mok.pub" in reason
    assert rig.own_files() == ""


def test_with_the_key_both_sets_are_loaded_as_asked_and_proven(rig: Rig) -> None:
    key = rig.machine.ssh("base64 -w 0 /var/lib/dkms/mok.pub; sync")
    rig.machine.cut()
    rig.machine.enroll(b64decode(key))
    switch_on(rig.machine)
    assert rig.loaded == STOCK

    code, host = rig.applied()

    assert (code, host["outcome"]) == (0, "changed"), host["error"]
    assert host["preflight"]["status"] == "ok"
    assert rig.loaded == OWN
    assert ARGUMENT in rig.arguments
    assert "[integrity]" in rig.machine.ssh("cat /sys/kernel/security/lockdown")
    assert rig.verdict("drv.modules") == "ok"
    assert rig.applied()[1]["outcome"] == "converged"


def test_undeclared_the_stock_set_is_loaded_again(rig: Rig) -> None:
    rig.stock()

    code, host = rig.applied("--prune")

    assert (code, host["outcome"]) == (0, "changed"), host["error"]
    assert rig.loaded == STOCK
    assert rig.own_files() == ""
