"""Power that is cut in a change of the driver: the machine boots, and the next apply converges.

Firmware, kernel, initial ramdisk, apt and dpkg are real. The driver's packages are the lab's small
ones: their modules have no code, so that the kernel itself takes none of them, and what plays the
compiler asks of a kernel's headers only that they are there. Loaded is, from each boot on, the
version of the module that then lies on the disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.demo_packages import state
from tests.lab.driver_rig import GOOD, OLD, PIN
from tests.lab.laptop import Laptop
from tests.shards import VM_DRIVER
from tests.vm.cutting import applying, cut_when, switch_on
from tests.vm.driver_packages import can_build, has_archive
from tests.vm.trying import PATIENCE_S, REBOOT_TIMEOUT_S, Tended

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.vm.machines import Machine
    from tests.vm.conftest import Machines

pytestmark = pytest.mark.shard(VM_DRIVER)

BUILDER = "nvidia-kernel-dkms"
# Seldom, so that dpkg has the processor: this package's modules are listed for half a minute.
CONFIGURES = f"sleep 2 && pgrep -f '[{BUILDER[0]}]{BUILDER[1:]}.postinst configure'"
NEVER = ("--reboot", "never")
OLD_DRIVER = """
DEBIAN_FRONTEND=noninteractive apt-get -q -y install \
    nvidia-driver nvidia-smi libcuda1 nvidia-persistenced 2>&1
"""


class Rig(Tended):
    @property
    def loaded(self) -> str:
        """The version of the kernel's module; empty: there is none."""
        return self.machine.run("cat /sys/module/nvidia/version").stdout.strip()

    @property
    def runs(self) -> str:
        """The version in which the libraries reach the module and the cards."""
        command = "nvidia-smi --query-gpu=driver_version --format=csv,noheader"
        said = self.machine.run(command)
        return said.stdout.split("\n")[0] if said.returncode == 0 else ""

    def versions(self) -> dict[str, str]:
        """NVIDIA's, of every package that is built from the driver's source."""
        said = self.machine.ssh(
            "dpkg-query -W -f '${db:Status-Abbrev}|${source:Package}|${Package} ${Version}\\n'"
        )
        rows = [line.split("|") for line in said.splitlines()]
        pairs = [
            pair.split()
            for status, built_from, pair in rows
            if status[1] == "i" and built_from == "nvidia-graphics-drivers"
        ]
        return {name: version.partition("-")[0] for name, version in pairs}


@dataclass(frozen=True)
class Booted:
    """A machine after the boot that followed a cut."""

    rig: Rig
    state: str  # of the package that dpkg was configuring, in its letters
    pin: str


@dataclass(frozen=True)
class Finished:
    """What the next apply said, whose reboot was owed when the power was cut again."""

    rig: Rig
    code: int
    host: Mapping[str, Any]


@pytest.fixture(scope="module")
def rig(module_vm: Machines, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """With 545 installed by plain apt, and loaded; 535 is declared."""
    rig = Rig(module_vm.up(), Laptop(tmp_path_factory.mktemp("laptop")))
    prepare(rig.machine)
    rig.machine.reboot()
    assert (set(rig.versions().values()), rig.loaded, rig.runs) == ({OLD}, OLD, OLD)
    declared = {"driver": "535", "reboot_timeout": REBOOT_TIMEOUT_S}
    rig.laptop.declare({rig.machine.name: {**rig.machine.data, **declared}})
    return rig


def prepare(machine: Machine) -> None:
    can_build(machine, machine.ssh("uname -r"))
    has_archive(machine, ("bookworm", "vendor"))
    machine.ssh(OLD_DRIVER, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def booted(rig: Rig) -> Booted:
    with applying(rig, *NEVER) as running:
        cut_when(rig.machine, CONFIGURES, PATIENCE_S)
        assert running.wait().code == 1
    switch_on(rig.machine)
    return Booted(rig, state(rig.machine, BUILDER), rig.machine.ssh(f"cat {PIN}"))


@pytest.fixture(scope="module")
def finished(booted: Booted) -> Finished:
    rig = booted.rig
    code, host = rig.apply(*NEVER)
    rig.machine.cut()
    switch_on(rig.machine)
    return Finished(rig, code, host)


def test_a_machine_cut_while_dpkg_configures_its_driver_boots_and_is_pinned(
    booted: Booted,
) -> None:
    assert booted.state == "iF"
    assert f"Pin: version {GOOD}" in booted.pin


def test_the_next_apply_finishes_the_change(finished: Finished) -> None:
    assert (finished.code, finished.host["outcome"]) == (0, "reboot_owed"), finished.host


def test_a_cut_before_its_reboot_loses_nothing_and_leaves_nothing_to_do(finished: Finished) -> None:
    rig = finished.rig

    code, host = rig.apply(*NEVER)

    assert (code, host["outcome"], host["changes"]) == (0, "converged", [])
    versions = rig.versions()
    assert (set(versions.values()), rig.loaded, rig.runs) == ({GOOD}, GOOD, GOOD)
    assert set(versions) <= set(rig.machine.ssh("apt-mark showhold").split())
    assert f"Pin: version {GOOD}" in rig.machine.ssh(f"cat {PIN}")
    assert rig.machine.ssh("dpkg --audit") == ""
