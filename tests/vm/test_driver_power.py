"""Power that is cut in a change of the driver: the machine boots, and the next apply converges.

Firmware, kernel, initial ramdisk, apt and dpkg are real. The driver's packages are the lab's small
ones: their modules have no code, so that the kernel itself takes none of them, and what plays the
compiler asks of a kernel's headers only that they are there. Loaded is, from each boot on, the
version of the module that then lies on the disk.
"""

from __future__ import annotations

import io
import tarfile
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab import layers
from tests.lab.demo_packages import Demo, publish, state
from tests.lab.driver_rig import GOOD, OLD, PIN
from tests.lab.laptop import Laptop
from tests.lab.packages import AT, FILE, source
from tests.shards import VM_DRIVER
from tests.vm.cutting import applying, cut_when, switch_on
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
# Machines of other tests say which driver is loaded, whatever they have on their disks.
BY_ITS_DISK = """
mkdir -p /etc/systemd/system/lab-cards.service.d
printf '[Service]\\nExecStartPre=rm /usr/lib/rigsim/etc/driver\\n' \\
    >/etc/systemd/system/lab-cards.service.d/by-its-disk.conf
"""
# What the lab's dkms looks for; nothing is compiled, so that nothing more is needed.
HEADERS = """\
#!/bin/sh
set -e
mkdir -p /usr/src/linux-headers-{kernel}/include
ln -sfn /usr/src/linux-headers-{kernel} /lib/modules/{kernel}/build
"""
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
    kernel = machine.ssh("uname -r")
    publish(
        machine,
        [
            Demo(f"linux-headers-{kernel}", "1", postinst=HEADERS.format(kernel=kernel)),
            Demo("lab-compiler", "1", {"Provides": "dpkg-dev, make, patch"}),
        ],
    )
    unpack(machine)
    sources = "\n".join(source("debian", suite) for suite in ("bookworm", "vendor"))
    assert machine.run(f"cat >/{FILE}", given=sources).returncode == 0
    machine.ssh("apt-get -q update", timeout=PATIENCE_S)
    machine.ssh(f"apt-get -q -y install linux-headers-{kernel} lab-compiler", timeout=PATIENCE_S)
    machine.ssh(OLD_DRIVER, timeout=PATIENCE_S)
    machine.ssh(BY_ITS_DISK)


def unpack(machine: Machine) -> None:
    """The lab's packages, where every host of the lab has them."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        tar.add(layers.repository() / "debian", "debian")
    done = machine.run(
        f"mkdir -p {AT} && base64 -d | tar -xz -C {AT} --no-same-owner",
        given=b64encode(stream.getvalue()).decode(),
    )
    assert done.returncode == 0, done.stderr


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
