"""Secure Boot: no reboot into a kernel that would refuse the driver's modules.

The firmware and what the kernel takes are simulated; keys, certificates and signatures are real.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.applying import INVENTORY
from tests.lab.driver_rig import AUTO, GOOD, OLD, REAL, THE_535, Rig, stages, subjects, tended
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(LAB_DRIVER)

KEYS, ENROLLED = "/var/lib/dkms", "/var/lib/rigsim/enrolled"
MAKE = (
    "openssl req -new -x509 -nodes -days 3650 -newkey rsa:2048 -subj '/CN=DKMS module signing key'"
    f" -keyout {KEYS}/mok.key -outform DER -out {KEYS}/mok.pub 2>/dev/null"
)
ENROL = f"install -D {KEYS}/mok.pub {ENROLLED}/mine.der"
MODULE = "/lib/modules/$(uname -r)/updates/dkms/nvidia-current.ko"
KERNEL, RELEASE = "6.8.0-31-generic", "6.8.0-31.31"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, "threadripper-3x3090=secure-boot", "secure_boot=on") as rig:
        rig.does("systemctl enable nvidia-persistenced")
        yield rig


def signer(rig: Rig) -> str:
    return rig.does(f"modinfo -F sig_key {MODULE}").replace(":", "")


def serial(rig: Rig) -> str:
    said = rig.does(f"openssl x509 -inform DER -in {KEYS}/mok.pub -noout -serial")
    return said.partition("=")[2]


def test_modules_that_nobody_signed_do_not_load_there(rig: Rig) -> None:
    assert (rig.drivers(), rig.loaded) == ({OLD}, "")


def test_without_an_enrolled_key_nothing_is_changed_and_what_to_type_is_told(rig: Rig) -> None:
    reason = rig.refusal(**THE_535)

    assert "Secure Boot is on, and the key that signs modules built here" in reason
    assert "`sudo mokutil --import /var/lib/dkms/mok.pub`" in reason
    assert "the blue menu at the machine's own console" in reason


def test_a_key_that_waits_for_the_console_is_told_as_that(rig: Rig) -> None:
    rig.does(MAKE)
    rig.does(f"install -D {KEYS}/mok.pub /var/lib/rigsim/enrolling/mine.der")

    reason = rig.refusal(**THE_535)

    assert "reboot, and enroll the key in the blue menu" in reason
    assert "mokutil --import" not in reason


def test_with_an_enrolled_key_the_modules_are_signed_with_it_and_load(rig: Rig) -> None:
    rig.does(ENROL)

    host = rig.apply(0, *AUTO, **THE_535)

    assert (host["outcome"], stages(host).count("reboot")) == ("changed", 1)
    assert signer(rig) == serial(rig)
    assert (rig.drivers(), rig.loaded) == ({GOOD}, GOOD)


def test_that_is_looked_at_in_every_apply_and_costs_nothing(rig: Rig) -> None:
    host = rig.apply(0, *AUTO, **THE_535)

    assert (host["outcome"], host["changes"]) == ("converged", [])


def test_doctor_finds_nothing_wrong_with_the_driver(rig: Rig) -> None:
    rig.declare(**THE_535)
    seen = rig.laptop.doctor(*INVENTORY).seen()

    assert {one for one in seen.ids("fail", "warn", "unknown") if one.startswith("drv.")} == set()
    assert "drv.secureboot" in seen.ids("ok")


def test_modules_with_the_signature_of_another_key_are_built_again(rig: Rig) -> None:
    rig.does(f"{MAKE} && {ENROL}")
    earlier = signer(rig)
    assert earlier != serial(rig)

    host = rig.apply(0, *AUTO, **THE_535)

    assert host["outcome"] == "changed"
    assert subjects(host, "module") == {f"NVIDIA modules for Linux {rig.does('uname -r')}"}
    assert signer(rig) == serial(rig)
    assert rig.drivers() == {GOOD}


def test_where_they_cannot_be_signed_it_ends_before_any_reboot(rig: Rig) -> None:
    rig.does(f"{MAKE} && {ENROL} && mv {KEYS}/mok.key {KEYS}/elsewhere")

    host = rig.apply(1, *AUTO, **THE_535)

    assert (host["outcome"], "reboot" in stages(host)) == ("failed", False)
    assert "Secure Boot would refuse the NVIDIA module" in str(host["error"])
    assert rig.loaded == GOOD


# ---- a distribution that signs modules itself


@pytest.fixture(scope="module")
def ubuntu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """As its installer leaves it: the kernel of the release, which its archive has modules for."""
    with tended(tmp_path_factory, "ubuntu-trap=secure-ubuntu", "secure_boot=on") as rig:
        rig.does(f"apt-get -q -y install linux-image-{KERNEL} linux-image-generic={RELEASE}")
        rig.does("apt-get -q -y purge linux-image-$(uname -r)")
        rig.reboot()
        yield rig


def test_without_a_key_the_modules_of_the_distribution_are_taken_and_its_kernel_stays(
    ubuntu: Rig,
) -> None:
    host = ubuntu.apply(0, *AUTO, **THE_535)

    assert (host["outcome"], stages(host).count("reboot")) == ("changed", 1)
    assert (ubuntu.drivers(), ubuntu.loaded) == ({REAL}, REAL)
    assert ubuntu.there("/var/lib/dkms/nvidia*") == []
    kernels = {f"linux-image-{KERNEL}", "linux-image-generic"}
    assert {f"linux-modules-nvidia-535-{KERNEL}", *kernels} <= ubuntu.holds()


def test_doctor_takes_them_for_what_they_are(ubuntu: Rig) -> None:
    """But for the kernel that runs, which is that of the machine around."""
    ubuntu.declare(**THE_535)

    assert {"drv.secureboot", "drv.loaded", "drv.pin"} <= ubuntu.laptop.doctor(
        *INVENTORY
    ).seen().ids("ok")


def test_an_upgrade_of_everything_leaves_both_alone(ubuntu: Rig) -> None:
    look = "ls /boot/vmlinuz-*; dpkg-query -W '*nvidia*' 'linux-*'"
    before = ubuntu.does(look)
    loose = "-o Dir::Etc::PreferencesParts=/nowhere --ignore-hold"
    assert "linux-image-6.8.0-149-generic" in ubuntu.does(f"apt-get -s {loose} full-upgrade")

    ubuntu.does("DEBIAN_FRONTEND=noninteractive apt-get -q -y full-upgrade")

    assert ubuntu.does(look) == before
    assert ubuntu.apply(0, *AUTO, **THE_535)["outcome"] == "converged"
