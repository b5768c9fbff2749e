"""The real packages of the driver, from the archive that this machine's own apt uses.

The cards are simulated; everything else is what a Debian machine does: its kernel with headers, the
driver's packages, one build by DKMS, and a newer suite that offers another branch. Of NVIDIA's own
installer there is a stand-in, with modules that a compiler takes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.lab import hosts, real_kernel, run_package
from tests.lab.applying import INVENTORY, only
from tests.lab.laptop import Laptop
from tests.lab.real_kernel import LONGEST_S
from tests.shards import REAL_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(REAL_DRIVER)

FROM_FILE = "535.183.01"
WORDS = ("--yes", "--reboot", "never", "--preflight", "never", "--json", *INVENTORY)


@pytest.fixture(scope="module")
def rig() -> Iterator[Host]:
    with hosts.running(("threadripper-3x3090=real-driver", "driver=none")) as (host,):
        real_kernel.install(host, "unattended-upgrades")
        yield host


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Laptop:
    return Laptop(tmp_path_factory.mktemp("laptop"))


def test_a_real_535_is_built_for_a_real_kernel_and_stays_although_550_is_offered(
    rig: Host, laptop: Laptop
) -> None:
    laptop.declare({rig.name: {"driver": "535"}})

    said = laptop.rigops("apply", *WORDS, timeout=LONGEST_S)

    assert said.code == 0, said.err
    host = only(said)
    assert host["outcome"] == "reboot_owed"
    came = {one["name"]: one["after"] for one in host["packages"]["install"]}
    version = came["nvidia-kernel-dkms"]
    upstream = version.partition("-")[0]
    assert upstream.startswith("535.")
    # What is installed, built and pinned is this very version, and no other.
    built = rig.run("dkms status").stdout
    (kernel,) = rig.run("ls /lib/modules").stdout.split()
    assert re.search(rf"nvidia-current/{upstream}, {re.escape(kernel)}, x86_64: installed", built)
    module = f"modinfo -k {kernel} -F version nvidia-current"
    assert rig.run(module).stdout.strip() == upstream
    # The real signature names DKMS's key as openssl does, which is what Secure Boot is judged by.
    signed = rig.run(f"modinfo -k {kernel} -F sig_key nvidia-current").stdout.strip()
    told = "openssl x509 -inform DER -in /var/lib/dkms/mok.pub -noout -serial"
    key = rig.run(told).stdout.strip()
    assert key == f"serial={signed.replace(':', '')}" != "serial="
    assert of_the_driver(rig) == {version}
    # 550 is in sight, and nobody brings it.
    offered = rig.run("apt-cache madison nvidia-kernel-dkms").stdout
    assert " 550." in offered
    for command in ("apt-get -s full-upgrade", "apt-get -s install nvidia-smi libcuda1"):
        simulated = rig.run(command)
        assert simulated.returncode == 0, simulated.stderr
        assert " (550." not in simulated.stdout
    really = rig.run("apt-get -q -y full-upgrade && unattended-upgrade -v", timeout=LONGEST_S)
    assert really.returncode == 0, really.stdout[-2000:] + really.stderr[-2000:]
    assert rig.run(module).stdout.strip() == upstream

    again = laptop.rigops("apply", *WORDS, timeout=LONGEST_S)

    assert only(again)["outcome"] == "reboot_owed"
    assert only(again)["changes"] == []


def test_real_dkms_builds_what_it_is_given_of_a_run_file_in_the_place_of_real_packages(
    rig: Host, laptop: Laptop
) -> None:
    """The modules have no code."""
    run_package.built(laptop.folder, FROM_FILE)
    laptop.declare({rig.name: {"driver": FROM_FILE, "driver_source": f"dir:{laptop.folder}"}})

    said = laptop.rigops("apply", *WORDS, timeout=LONGEST_S)

    assert said.code == 0, said.err
    assert of_the_driver(rig) == set()
    (kernel,) = rig.run("ls /lib/modules").stdout.split()
    built = rig.run("dkms status").stdout
    assert re.fullmatch(rf"nvidia/{FROM_FILE}, {re.escape(kernel)}, x86_64: installed\n", built)
    for name in ("nvidia", "nvidia-uvm", "nvidia-peermem"):
        assert rig.run(f"modinfo -k {kernel} -F version {name}").stdout.strip() == FROM_FILE
    assert rig.run(f"modinfo -k {kernel} -F sig_key nvidia").stdout.strip()
    # Of the real archives nothing of a driver can be installed beside it.
    for name in ("nvidia-driver", "libcuda1", "nvidia-smi", "nvidia-open-kernel-dkms"):
        assert rig.run(f"apt-get -s install {name}").returncode != 0, name
    really = rig.run("apt-get -q -y full-upgrade", timeout=LONGEST_S)
    assert really.returncode == 0, really.stdout[-2000:] + really.stderr[-2000:]
    assert of_the_driver(rig) == set()
    assert only(laptop.rigops("apply", *WORDS, timeout=LONGEST_S))["changes"] == []


def of_the_driver(rig: Host) -> set[str]:
    """The versions of what the driver's source built."""
    said = rig.run("dpkg-query -W -f '${db:Status-Status} ${source:Package} ${source:Version}\\n'")
    head = "installed nvidia-graphics-drivers "
    lines = said.stdout.splitlines()
    return {line.removeprefix(head) for line in lines if line.startswith(head)}
