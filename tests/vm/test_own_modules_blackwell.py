"""Two RTX 5090 with modules of the owner's: with and without the two registry keys, and mixed.

All that is real in test_own_modules_applied is so here, with a driver that knows these cards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests import own_tree
from tests.lab.driver_rig import NEWEST
from tests.lab.laptop import Laptop
from tests.shards import VM_RIGS
from tests.vm import own_machine
from tests.vm.own_machine import OWN, STOCK
from tests.vm.own_rig import ARGUMENT, Rig

if TYPE_CHECKING:
    from pathlib import Path

    from tests.vm.conftest import Machines

pytestmark = pytest.mark.shard(VM_RIGS)

TREE: Final = own_tree.files(NEWEST, OWN)
KEYS: Final = "RMForceStaticBar1=1;PeerMappingOverride=1"
TOLD: Final = {"module_options": {"nvidia": {"NVreg_RegistryDwords": KEYS}}}
DROP_IN: Final = "/etc/default/grub.d/99-rigops.cfg"


@pytest.fixture(scope="module")
def rig(module_vm: Machines, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    machine = module_vm.up(
        system=own_machine.system(NEWEST), memory=1536, cards=("GeForce RTX 5090",) * 2
    )
    return Rig(machine, Laptop(tmp_path_factory.mktemp("laptop")), NEWEST, TREE)


def test_copies_that_hang_without_the_keys_lead_back_to_the_stock_set(rig: Rig) -> None:
    rig.own()

    code, host = rig.applied()

    assert (code, host["outcome"]) == (1, "failed"), host["error"]
    assert "preflight failed" in host["error"]["message"]
    assert rig.loaded == STOCK
    assert ARGUMENT not in rig.arguments
    code, host = rig.run("plan")
    assert code == 1
    assert "are not tried again" in host["blocked"][0]["reason"]


def test_with_the_keys_the_same_tree_is_tried_again_and_proven(rig: Rig) -> None:
    rig.own(**TOLD)

    code, host = rig.applied()

    assert (code, host["outcome"]) == (0, "changed"), host["error"]
    assert host["preflight"]["status"] == "ok"
    assert rig.loaded == OWN
    assert f"nvidia of tree {OWN} with {KEYS}" in rig.machine.ssh("dmesg")
    assert rig.proven["modules"].startswith("own:")
    assert rig.applied()[1]["outcome"] == "converged"


def test_what_a_person_took_away_is_drift_until_the_next_apply(rig: Rig) -> None:
    rig.machine.ssh(f"sed -i 's/ *{ARGUMENT}//' {DROP_IN} && update-grub 2>/dev/null")
    rig.machine.reboot()

    assert rig.loaded == STOCK
    assert rig.verdict("drv.modules") == "fail"
    code, host = rig.applied()
    assert (code, host["outcome"]) == (0, "changed"), host["error"]
    assert rig.loaded == OWN
    assert rig.verdict("drv.modules") == "ok"


def test_undeclared_it_is_gone_and_the_packages_stay(rig: Rig) -> None:
    packages = rig.machine.ssh("dpkg-query -W")
    rig.stock()

    code, host = rig.applied("--prune")

    assert (code, host["outcome"]) == (0, "changed"), host["error"]
    assert rig.loaded == STOCK
    assert rig.own_files() == ""
    assert rig.machine.ssh("dpkg-query -W") == packages


def test_two_generations_run_with_it_and_are_told_that_they_are_no_peers(
    module_vm: Machines, tmp_path: Path
) -> None:
    mixed = ("GeForce RTX 5090", "GeForce RTX 3090")
    machine = module_vm.up(system=own_machine.system(NEWEST), memory=1536, cards=mixed)
    rig = Rig(machine, Laptop(tmp_path), NEWEST, TREE)
    rig.own(p2p="measure")

    code, host = rig.applied()

    assert (code, host["outcome"]) == (0, "changed"), host["error"]
    assert rig.loaded == OWN
    assert rig.verdict("mixed.gpus") == "warn"
    assert rig.verdict("drv.modules") == "ok"
