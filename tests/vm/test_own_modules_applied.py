"""Modules of the owner's on a whole machine, from the stock ones to a proof and back.

Real are firmware, GRUB, systemd, apt, DKMS, kmod, the kernels and every module, of a stub of the
tree. Cards and CUDA are the lab's, and grant each other access where the owner's set is loaded.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from tests import own_tree
from tests.lab.driver_rig import GOOD
from tests.lab.laptop import Laptop
from tests.shards import VM_MODULES
from tests.vm import own_machine
from tests.vm.own_machine import OWN, STOCK
from tests.vm.own_rig import ARGUMENT, FAILED, FOLDER, Rig
from tests.vm.trying import PATIENCE_S

if TYPE_CHECKING:
    from tests.vm.conftest import Machines

pytestmark = pytest.mark.shard(VM_MODULES)

FIRMWARE: Final = f"/lib/firmware/nvidia/{GOOD}"
FAULT: Final = "/etc/lab-fault-of-own-modules"
MODULE: Final = "kernel-open/nvidia-uvm/module.c"
# For the kernel that comes later it does not build.
REFUSES: Final = "#include <linux/kconfig.h>\n#ifdef CONFIG_PREEMPT_RT\n#error too new\n#endif\n"
PURGE: Final = """
echo 'linux-base linux-base/removing-running-kernel boolean false' | debconf-set-selections
DEBIAN_FRONTEND=noninteractive apt-get -q -y purge"""
HOOK_ENDS: Final = """
while systemctl list-units --plain --no-legend 'rigops-kernel-hook-*' | grep -q .; do sleep 1; done
"""


@pytest.fixture(scope="module")
def rig(module_vm: Machines, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    tree = own_tree.files(GOOD, OWN)
    machine = module_vm.up(system=own_machine.system(), memory=1536)
    laptop = Laptop(tmp_path_factory.mktemp("laptop"))
    rig = Rig(machine, laptop, GOOD, {**tree, MODULE: REFUSES + tree[MODULE]})
    rig.own()
    assert rig.loaded == STOCK
    return rig


@pytest.mark.parametrize(
    ("moment", "is_there"),
    [
        pytest.param(f"ls {FOLDER}/*.tar.gz", "*.tar.gz", id="sent"),
        pytest.param(
            f"test -e {FOLDER}/build/dkms && pgrep -x cc1", "*.tar.gz", id="built in part"
        ),
        pytest.param(f"ls {FOLDER}/*/set", "*/set", id="built"),
        pytest.param("pgrep -f '[m]kinitramfs'", "*/set", id="in the initramfs"),
    ],
)
def test_a_cut_before_the_trial_leaves_the_stock_set(rig: Rig, moment: str, is_there: str) -> None:
    rig.cut(moment)

    assert rig.loaded == STOCK
    assert ARGUMENT not in rig.arguments
    assert rig.machine.ssh(f"ls {FOLDER}/{is_there}")
    assert rig.is_whole


def test_a_cut_while_they_are_proven_leads_back_to_the_stock_set(rig: Rig) -> None:
    rig.cut(stage="preflight")

    assert rig.loaded == STOCK
    assert rig.machine.ssh(f"grep -r {ARGUMENT} /boot/grub/grub.cfg || true") == ""
    assert rig.is_whole


def test_a_cut_of_the_ordered_trial_boots_the_own_set_once(rig: Rig) -> None:
    rig.cut(stage="reboot")

    assert rig.loaded == OWN
    assert "rigops.trial" in rig.arguments
    assert rig.is_whole


def test_a_plain_apply_proves_what_was_cut_off_and_makes_it_permanent(rig: Rig) -> None:
    code, host = rig.applied()

    assert (code, host["outcome"]) == (0, "changed"), host["error"]
    assert host["preflight"]["status"] == "ok"
    order = [one["stage"] for one in host["stages"]]
    assert order.index("preflight") < order.index("change")
    assert ARGUMENT in rig.machine.ssh("cat /boot/grub/grub.cfg")
    proven = rig.proven
    (locked,) = json.loads((rig.laptop.folder / "inventory.lock.json").read_text())["hosts"]
    tree = rig.laptop.folder / "data/rigops/vault/sha256" / locked["tree"][:2]
    assert proven["modules"] == locked["modules"]
    assert proven["modules"].startswith("own:")
    assert proven["build_id"] in rig.machine.ssh(f"cat {FOLDER}/*/set")
    assert (tree / locked["tree"][2:]).is_file()
    assert rig.traces() == ""
    assert rig.machine.ssh("lsinitramfs /boot/initrd.img-$(uname -r) | grep 00-rigops")


def test_the_next_boot_and_the_next_apply_leave_it_so(rig: Rig) -> None:
    rig.machine.reboot()

    code, host = rig.applied()

    assert rig.loaded == OWN
    assert (code, host["outcome"], host["changes"]) == (0, "converged", []), host
    assert rig.verdict("drv.modules") == "ok"


def test_a_kernel_that_the_tree_does_not_build_for_boots_with_the_stock_set(rig: Rig) -> None:
    before = rig.machine.ssh("uname -r")
    install = "DEBIAN_FRONTEND=noninteractive apt-get -q -y install -o APT::Sandbox::User=root"
    rig.machine.ssh(f"{install} {own_machine.LATER}/kernel.deb", timeout=PATIENCE_S)
    rig.machine.ssh(HOOK_ENDS, timeout=PATIENCE_S)

    assert rig.is_whole
    assert "your own NVIDIA modules were not built" in rig.machine.ssh(
        "journalctl -t rigops -o cat"
    )
    assert rig.verdict("drv.modules") == "fail"
    rig.machine.reboot()
    kernel = rig.machine.ssh("uname -r")
    assert kernel != before
    assert ARGUMENT in rig.arguments
    assert rig.loaded == STOCK
    assert rig.verdict("drv.modules") == "fail"
    rig.machine.ssh(f"{PURGE} linux-image-{kernel}", timeout=PATIENCE_S)
    rig.machine.reboot()
    assert rig.loaded == OWN


def test_undeclared_it_is_gone_and_the_packages_stay(rig: Rig) -> None:
    packages = rig.machine.ssh("dpkg-query -W")
    rig.stock()

    code, host = rig.applied("--prune")

    assert (code, host["outcome"]) == (0, "changed"), host["error"]
    assert rig.loaded == STOCK
    assert ARGUMENT not in rig.arguments
    assert rig.own_files() == ""
    assert rig.machine.ssh("dpkg-query -W") == packages
    assert rig.is_whole
    assert rig.applied()[1]["outcome"] == "converged"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        pytest.param(f"echo gone >{FAULT}", "is gone with them", id="a card"),
        pytest.param(f"echo wrong >{FAULT}", "preflight failed", id="a copy"),
        pytest.param(f"mv {FIRMWARE} /root", "no GSP firmware", id="its firmware"),
    ],
)
def test_a_trial_that_fails_comes_back_and_is_not_tried_again(
    rig: Rig, fault: str, told: str
) -> None:
    rig.machine.ssh(f"rm -f {FAILED} {FAULT}; {fault}; sync")
    rig.own()

    code, host = rig.applied()

    assert (code, host["outcome"]) == (1, "failed"), host["error"]
    assert told in host["error"]["message"]
    assert rig.loaded == STOCK
    assert ARGUMENT not in rig.arguments
    assert rig.machine.ssh(f"grep -r {ARGUMENT} /boot/grub/grub.cfg || true") == ""
    assert rig.traces() == ""
    code, host = rig.run("plan")
    assert code == 1
    (reason,) = (one["reason"] for one in host["blocked"] if one["concern"] == "driver_modules")
    assert "are not tried again" in reason
    assert told in reason
