"""iommu=pt on a machine with an IOMMU, and arguments that no machine comes up with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.laptop import Laptop
from tests.shards import VM_TRIAL
from tests.vm.looking import group_types
from tests.vm.trying import Tended

if TYPE_CHECKING:
    from tests.vm.conftest import Machines

pytestmark = pytest.mark.shard(VM_TRIAL)

ARGUMENT = "iommu=pt"


@pytest.fixture(scope="module")
def rig(module_vm: Machines, tmp_path_factory: pytest.TempPathFactory) -> Tended:
    return Tended(module_vm.up(), Laptop(tmp_path_factory.mktemp("laptop")))


def test_what_is_declared_and_nowhere_yet_fails(rig: Tended) -> None:
    rig.declare(ARGUMENT)

    assert group_types(rig.machine) == {"DMA-FQ"}
    assert rig.verdict("cmdline.drift") == "fail"
    assert rig.verdict("iommu.mode") in {"fail", "warn"}


def test_without_a_reboot_it_is_owed_and_no_boot_would_have_it(rig: Tended) -> None:
    code, host = rig.apply("--reboot", "never")

    assert (code, host["outcome"]) == (0, "reboot_owed")
    assert rig.verdict("cmdline.drift") == "warn"
    assert rig.machine.ssh("grep -r iommu=pt /boot/grub /etc/default/ || true") == ""
    assert rig.traces() == ""


def test_one_boot_tries_it_and_every_boot_has_it_then(rig: Tended) -> None:
    code, host = rig.apply("--reboot", "auto")

    assert (code, host["outcome"]) == (0, "changed"), host
    assert any("was tried and works" in line for line in host["story"])
    assert group_types(rig.machine) == {"identity"}
    assert rig.verdict("cmdline.drift") == "ok"
    assert rig.verdict("iommu.mode") == "ok"
    assert rig.traces() == ""
    assert "rigops.trial" in rig.arguments


def test_the_boot_after_that_is_a_plain_one_with_it(rig: Tended) -> None:
    rig.machine.reboot()

    assert ARGUMENT in rig.arguments
    assert "rigops.trial" not in rig.arguments
    assert group_types(rig.machine) == {"identity"}
    code, host = rig.apply("--reboot", "never")
    assert (code, host["outcome"]) == (0, "converged")


def test_what_is_no_longer_declared_goes_and_the_iommu_translates_again(rig: Tended) -> None:
    rig.declare()

    code, host = rig.apply("--reboot", "auto")

    assert (code, host["outcome"]) == (0, "changed"), host
    assert ARGUMENT not in rig.arguments
    assert group_types(rig.machine) == {"DMA-FQ"}


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("rdinit=/nonexistent", "left no trace"),  # panics
        ("break=mount", "left no trace"),  # stops before the root is there
        ("systemd.mask=ssh.service", "it was not confirmed"),  # boots, and cannot be reached
    ],
)
def test_an_argument_that_strands_the_machine_is_taken_back_and_told_of(
    rig: Tended, argument: str, told: str
) -> None:
    before = rig.machine.boot_id()
    rig.declare(argument)

    code, host = rig.apply("--reboot", "auto")

    assert (code, host["outcome"]) == (1, "failed"), host
    assert rig.machine.boot_id() != before
    assert argument not in rig.arguments
    assert "panic=10" not in rig.arguments
    assert any(told in line for line in host["story"]), host["story"]
    assert any("nothing of the new ones is left" in line for line in host["story"])
    assert rig.traces() == ""
    assert rig.machine.ssh(f"grep -rF {argument} /boot/grub /etc/default/ || true") == ""
    assert rig.verdict("cmdline.drift") == "fail"  # declared, and not configured
